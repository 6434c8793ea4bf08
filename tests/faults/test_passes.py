"""Several passes over the data, with kills in each: the posterior is the same, to the last digit, as in peace."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest

from streaminfer import fit, load_spec
from tests.faults.buses import params_with
from tests.faults.identical import CASES, SERIAL
from tests.faults.programs import Program, Programs, children, document

EPOCHS, KILLS = 3, 6
ALL = [
    ("gaussian_mixture", "memoized"), ("logistic_regression", "memoized"), ("probit_regression", "memoized"),
    ("logistic_regression", "svi"), ("lda", "memoized"), ("lda", "svi"),
]  # fmt: skip
IN_EVERY_RUN = {
    "embedded": [("lda", "memoized")],
    "kafka": [("logistic_regression", "svi")],
}
"""Words and numbers, one on each bus; the simulated schedules of every run have several passes of both methods."""
LATER = {bus: [each for each in ALL if each not in rows] for bus, rows in IN_EVERY_RUN.items()}


def kill_now_and_then(up: Program, seed: int) -> int:
    """Kills children of `up` until it ends, at most KILLS of them; returns how many."""
    rng, killed = random.Random(seed), 0
    while up.alive and killed < KILLS:
        time.sleep(rng.uniform(0.6, 1.6))
        running = list(children(up.pid))
        if running and up.alive:
            os.kill(rng.choice(running), signal.SIGKILL)
            killed += 1
    return killed


def passes(programs: Programs, url: str, model: str, method: str) -> None:
    rules = {"method": method, "minibatch": 100, "snapshot_ms": 20, "epochs": EPOCHS, **SERIAL}
    case = CASES[model](8_000)
    spec = case.write_spec(programs.folder / "spec.yaml", "passes", 1, **rules)
    data = case.write_csv(programs.folder / "data.csv")
    up = programs.start("up", spec, "--data", data, "--workers", 2, "--until-idle", "--bus", url)
    killed = kill_now_and_then(up, seed=3)
    assert up.process.wait(180) == 0, up.err
    assert killed >= KILLS // 2, "it ended before much was killed"
    topic = {"topic": "passes.events", "partitions": None}
    peaceful = case.write_spec(programs.folder / "peaceful.yaml", "peaceful", data=topic, **rules)
    programs.run("up", peaceful, "--until-idle", "--bus", url)
    found, wanted = (document(each, url) for each in (spec, peaceful))
    for each in (found, wanted):
        case.check(each)
        assert each["epoch"] == EPOCHS - 1
    np.testing.assert_array_equal(found["natural"], wanted["natural"])
    if url.startswith("embedded:") and model != "lda":  # whose positions are the numbers of the rows
        np.testing.assert_array_equal(found["natural"], fit(load_spec(spec), case.named).to_json()["natural"])


@pytest.mark.parametrize(("bus_url", "model", "method"), params_with(IN_EVERY_RUN), indirect=["bus_url"])
def test_kills_in_any_pass_change_no_digit(programs: Programs, bus_url: str, model: str, method: str) -> None:
    passes(programs, bus_url, model, method)


@pytest.mark.long
@pytest.mark.parametrize(("bus_url", "model", "method"), params_with(LATER), indirect=["bus_url"])
def test_kills_in_any_pass_of_the_others(programs: Programs, bus_url: str, model: str, method: str) -> None:
    passes(programs, bus_url, model, method)
