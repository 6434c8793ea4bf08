"""Posteriors that forget, from a CSV file through `up --until-idle`: the same whoever reads which partition when."""

from __future__ import annotations

from itertools import product

import pytest

from tests.faults.answers import MODELS
from tests.faults.buses import params_with
from tests.faults.forgotten import by_events, by_time
from tests.faults.programs import Programs, document

EVENTS = 2000
PARTITIONS = 4
HALF_LIFE = 150.0
FULL = list(product(("events", "time"), MODELS, (1, 2, 4)))
CHOSEN = {
    "embedded": [("events", "poisson", 1), ("events", "gaussian", 2), ("events", "linear_regression", 4),
                 ("time", "linear_regression", 1), ("time", "categorical", 2), ("time", "gaussian", 4)],
    "kafka": [("events", "linear_regression", 2), ("time", "gaussian", 2)],
}  # fmt: skip
"""Each number of workers with each kind on the embedded bus; each kind once on Kafka."""


def check(programs: Programs, url: str, forgets: str, model: str, workers: int) -> None:
    case, inference = (
        by_events(model, EVENTS, PARTITIONS, HALF_LIFE) if forgets == "events" else by_time(model, EVENTS, HALF_LIFE)
    )
    spec = case.write_spec(programs.folder / "spec.yaml", "forgets", PARTITIONS, minibatch=64, **inference)
    data = case.write_csv(programs.folder / "data.csv")
    programs.run("up", spec, "--data", data, "--workers", workers, "--until-idle", "--bus", url)
    found = document(spec, url)
    case.check(found)
    assert found["n_effective"] < EVENTS / 2, "next to nothing was forgotten"


@pytest.mark.parametrize(("bus_url", "forgets", "model", "workers"), params_with(CHOSEN), indirect=["bus_url"])
def test_equals_the_weighted_batch(programs: Programs, bus_url: str, forgets: str, model: str, workers: int) -> None:
    check(programs, bus_url, forgets, model, workers)


@pytest.mark.long
@pytest.mark.parametrize(("forgets", "model", "workers"), FULL)
def test_equals_it_in_every_combination(
    programs: Programs, bus_url: str, forgets: str, model: str, workers: int
) -> None:
    check(programs, bus_url, forgets, model, workers)
