"""What ± means: one standard deviation, in every command, and they say so."""

from __future__ import annotations

import types

import numpy as np

from streaminfer import fit, parse_spec
from streaminfer.cli import common, demo
from streaminfer.cli.snapshot import one_line
from tests.cli.conftest import Workplace


def test_a_line_of_snapshot() -> None:
    found = fit(parse_spec({"name": "coin", "model": {"kind": "bernoulli", "field": "y"}}), [{"y": 1}, {"y": 0}])
    assert one_line(found).endswith(f"p {found.mean['p']:.5g} ± {found.sd['p']:.2g}")


def test_a_line_of_the_demo() -> None:
    features = ["distance_km", "weight_kg", "rain"]
    spec = parse_spec({"name": "d", "model": {"kind": "linear_regression", "features": features, "target": "minutes"}})
    found = fit(spec, demo._rows(demo.parcels(np.random.default_rng(1), 200)))
    lines = demo.Screen()._lines(types.SimpleNamespace(killed=[], sent=200), found)  # type: ignore[arg-type]
    mean, sd = found.mean["weights"], found.sd["weights"]
    assert [line[-15:].strip() for line in lines[1:]] == [f"{mean[i]:.3f} ± {sd[i]:.3f}" for i in range(4)]


def test_who_follows_and_who_watches_is_told(workplace: Workplace, prepared_url: str) -> None:
    follower = workplace.programs.start("snapshot", workplace.spec, "--follow", "--bus", prepared_url)
    from tests.faults.programs import wait_for

    wait_for(lambda: " ± " in follower.out, "a line")
    assert follower.err.startswith(common.ABOUT)
    shown = workplace.programs.run("demo", "--events", 100, "--seconds", 1, "--kills", 0)
    assert common.ABOUT in shown.out
