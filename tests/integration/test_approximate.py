"""Approximate models from a file, with several workers: every event is in, and staleness costs next to nothing."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer import connect, fit, load_spec
from tests.faults.buses import params_with
from tests.faults.identical import CASES
from tests.faults.programs import Programs

EVENTS = 6000
MOST_LOST = 0.03
"""Nats for each held-out event: ten times what docs/variational.md measures for 16 stale minibatches."""
OF_NUMBERS = ("gaussian_mixture", "logistic_regression", "probit_regression")
ALL = [(model, method) for model in OF_NUMBERS for method in ("svb", "svi")]
CHOSEN = {
    "embedded": [("gaussian_mixture", "svi"), ("logistic_regression", "svb")],
    "kafka": [("gaussian_mixture", "svb"), ("probit_regression", "svb")],
}
LATER = {bus: [each for each in ALL if each not in rows] for bus, rows in CHOSEN.items()}


def check(programs: Programs, url: str, model: str, method: str) -> None:
    case = CASES[model](EVENTS)
    path = case.write_spec(programs.folder / "spec.yaml", "several", method=method, minibatch=64)
    data, spec = case.write_csv(programs.folder / "data.csv"), load_spec(path)
    programs.run("up", path, "--data", data, "--workers", 3, "--until-idle", "--bus", url)
    rows, held_out = case.named, CASES[model](2000, seed=8).named
    with connect(url) as bus:
        found = bus.snapshot(spec)
    assert found is not None
    case.check(found.to_json())
    assert found.to_json()["exactness"] in {"bound", "approximate"}
    loss = np.mean(fit(spec, rows).log_predictive(held_out)) - np.mean(found.log_predictive(held_out))
    assert abs(loss) < MOST_LOST


def test_every_model_and_method_is_on_a_bus_in_every_run() -> None:
    assert {model for rows in CHOSEN.values() for model, _ in rows} == set(OF_NUMBERS)
    assert {method for rows in CHOSEN.values() for _, method in rows} == {"svb", "svi"}


@pytest.mark.parametrize(("bus_url", "model", "method"), params_with(CHOSEN), indirect=["bus_url"])
def test_several_workers_learn_what_one_does(programs: Programs, bus_url: str, model: str, method: str) -> None:
    check(programs, bus_url, model, method)


@pytest.mark.long
@pytest.mark.parametrize(("bus_url", "model", "method"), params_with(LATER), indirect=["bus_url"])
def test_several_workers_learn_it_in_every_combination(
    programs: Programs, bus_url: str, model: str, method: str
) -> None:
    check(programs, bus_url, model, method)
