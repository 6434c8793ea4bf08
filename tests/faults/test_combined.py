"""Logistic regression in 8 subposteriors through `up`, on every bus, against one long exact chain.

Rows are dealt out in turn, or by the keys of their records, so that partitions have covariates of their own. Means must
be within 0.1 sd and sds within 10% of the exact ones. What both sides err by is added at 5 standard errors: of 10,000
proposals by their weights, worth at least a third of that, and of the chain by its effective draws.
"""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import fit, load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.spec import parse_spec
from tests.faults.buses import params_with
from tests.faults.programs import Program, Programs, document

N, J = 4000, 8
FEATURES = ["a", "b", "c"]
MODEL = {"kind": "logistic_regression", "features": FEATURES, "target": "y"}
ERRORS = 5.0
SHOPS = 64


@functools.cache
def rows() -> list[dict[str, Any]]:
    """Every shop has covariates around a place of its own."""
    rng = np.random.default_rng(31)
    places = rng.normal(0, 0.8, (SHOPS, len(FEATURES)))
    shop = rng.integers(0, SHOPS, N)
    x = (places[shop] + rng.normal(0, 0.7, (N, len(FEATURES)))).round(6)
    y = rng.random(N) < 1 / (1 + np.exp(-(0.4 + x @ [1.0, -0.7, 0.3])))
    return [
        {**dict(zip(FEATURES, each, strict=True)), "y": int(t), "shop": f"shop-{s}"}
        for each, t, s in zip(x.tolist(), y, shop, strict=True)
    ]


@functools.cache
def exact(draws: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and sd of one long chain, and how many independent draws it is worth."""
    inference = {"method": "mala", "chains": 1, "draws": draws, "seed": 2}
    found: Any = fit(parse_spec({"name": "exact", "model": MODEL, "inference": inference}), rows())
    assert found.exactness == "sampled"
    return found.mean["weights"], found.sd["weights"], float(found.to_json()["sampling"]["n_effective_draws"])


def write_spec(folder: Path, **changes: Any) -> Path:
    inference = {"method": "mala", "subposteriors": J, "chains": 1, "draws": 400, **changes}
    path = folder / "shops.yaml"
    made = {"name": "shops", "data": {"partitions": J}, "model": MODEL, "inference": inference}
    path.write_text(json.dumps(made))
    return path


def produce_by_key(path: Path, url: str) -> None:
    """As a producer that gives each record a key: the bus chooses the partition by it."""
    spec = load_spec(path)
    with open_bus(url) as bus:
        names.create_topics(spec, bus)
        topic = names.data_topic(spec)
        bus.publish([Output(topic, json.dumps(row).encode(), row["shop"].encode()) for row in rows()])
        assert sum(bus.ends(topic).values()) == N
        assert min(bus.ends(topic).values()) > N / J / 3


def produce_in_turn(programs: Programs, path: Path, url: str) -> None:
    data = programs.folder / "rows.ndjson"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    programs.run("produce", path, data, "--bus", url)


def check(found: dict[str, Any], draws: int) -> None:
    mean, sd, worth = exact(draws)
    combined = found["sampling"]["combined"]
    assert (found["n_events"], found["exactness"], found["family"]) == (N, "sampled", "draws")
    assert combined["corrected"]
    assert combined["k_hat"] <= combined["threshold"]
    assert [each["left_out"] for each in found["sampling"]["subposteriors"]] == [False] * J
    assert len(found["frontier"]) == J
    proposals = combined["n_proposals"] / (1 + combined["n_proposals"] * combined["log_evidence_error"] ** 2)
    assert proposals > combined["n_proposals"] / 3
    error = ERRORS * math.sqrt(1 / proposals + 1 / worth)
    weights = found["parameters"]["weights"]
    away = np.abs((np.array(weights["mean"]) - mean) / sd)
    assert away.max() < 0.1 + error, away
    ratio = np.abs(np.array(weights["sd"]) / sd - 1)
    assert ratio.max() < 0.1 + error / math.sqrt(2) * 1.2, ratio


def check_combine(told: Program, found: dict[str, Any]) -> None:
    """What `combine` says of two combiners. It corrects the average anew, with other proposals than the job's.

    Both are worth a third of 10,000 proposals at least, so their means are 0.024 sd apart: 0.14 is 5.7 times that.
    """
    published = found["parameters"]["weights"]
    assert [each["by"] for each in told.documents] == ["average", "gaussian"]
    for each in told.documents:
        assert (each["n_events"], each["refused"], each["compared_with"]["corrected"]) == (N, None, True)
        assert [part["n_draws"] for part in each["subposteriors"]] == [400] * J
        truth = each["compared_with"]["parameters"]["weights"]
        assert (np.abs(np.subtract(truth["mean"], published["mean"])) < 0.14 * np.array(published["sd"])).all()
        shift = np.abs(np.subtract(each["parameters"]["weights"]["mean"], truth["mean"])) / truth["sd"]
        assert each["difference"]["shift"] == pytest.approx(shift.max())


def run(programs: Programs, bus_url: str, split: str, **changes: Any) -> Path:
    path = write_spec(programs.folder, **changes)
    if split == "by key":
        produce_by_key(path, bus_url)
    else:
        produce_in_turn(programs, path, bus_url)
    programs.run("up", path, "--workers", 2, "--until-idle", "--bus", bus_url)
    return path


IN_EVERY_RUN: dict[str, list[tuple[str]]] = {"embedded": [], "kafka": [("by key",)]}
"""On the embedded bus, every version of killed processes is made again, and `combine` has its own tests."""
LATER = {"embedded": [("in turn",), ("by key",)], "kafka": [("in turn",)]}


@pytest.mark.parametrize(("bus_url", "split"), params_with(IN_EVERY_RUN), indirect=["bus_url"])
def test_eight_subposteriors_give_the_posterior_of_all(programs: Programs, bus_url: str, split: str) -> None:
    """`combine` finds the same posterior by the draws on the bus, and the bus refuses another number of parts."""
    path = run(programs, bus_url, split)
    found = document(path, bus_url)
    check(found, 6_000)
    check_combine(programs.run("combine", path, "--by", "average,gaussian", "--json", "--bus", bus_url), found)
    write_spec(programs.folder, subposteriors=4)
    refused = programs.run("up", path, "--until-idle", "--bus", bus_url, code=1)
    assert "inference.subposteriors is 8 in that spec and 4 in this one" in refused.err


@pytest.mark.long
@pytest.mark.parametrize(("bus_url", "split"), params_with(LATER), indirect=["bus_url"])
def test_against_a_longer_chain(programs: Programs, bus_url: str, split: str) -> None:
    check(document(run(programs, bus_url, split), bus_url), 40_000)
