"""Keyed posteriors from a CSV file through `up --until-idle`: each key has the batch posterior of its own rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.answers import MODELS
from tests.faults.buses import params_with
from tests.faults.keyed import KeyedCase, keyed
from tests.faults.programs import Programs

ROWS = [
    ("bernoulli", "", 3, "own"),
    ("categorical", "time", 1, "own"),
    ("poisson", "events", 3, "own"),
    ("gaussian", "time", 3, "foreign"),
    ("linear_regression", "", 1, "foreign"),
]
"""Model, what is forgotten, shards, and whose the data topic is: in an external one a key is in all partitions."""
BY_BUS = {"embedded": [ROWS[0], ROWS[1], ROWS[4]], "kafka": [ROWS[2], ROWS[3]]}
LATER = {bus: [row for row in ROWS if row not in rows] for bus, rows in BY_BUS.items()}


def load(programs: Programs, case: KeyedCase, url: str, shards: int, topic: str) -> Path:
    """Rows on a topic, and the spec that reads them."""
    folder = programs.folder
    data, key = case.write_csv(folder / "data.csv"), {"field": "id", "shards": shards}
    if topic == "own":
        spec = case.write_spec(folder / "spec.yaml", "keyed", key, minibatch=50)
        programs.run("produce", spec, data, "--bus", url)
        return spec
    other = case.write_spec(folder / "other.yaml", "other", None)
    programs.run("produce", other, data, "--bus", url)
    return case.write_spec(folder / "spec.yaml", "keyed", key, {"topic": "other.events"}, minibatch=50)


def check(programs: Programs, url: str, model: str, forgets: str, shards: int, topic: str) -> None:
    case = keyed(model, keys=6, rows=300, forgets=forgets)
    spec = load(programs, case, url, shards, topic)
    programs.run("up", spec, "--workers", 2, "--until-idle", "--bus", url)
    case.check(spec, url)


@pytest.mark.parametrize(("bus_url", "model", "forgets", "shards", "topic"), params_with(BY_BUS), indirect=["bus_url"])
def test_every_key_equals_its_batch_posterior(
    programs: Programs, bus_url: str, model: str, forgets: str, shards: int, topic: str
) -> None:
    check(programs, bus_url, model, forgets, shards, topic)


@pytest.mark.long
@pytest.mark.parametrize(("bus_url", "model", "forgets", "shards", "topic"), params_with(LATER), indirect=["bus_url"])
def test_every_key_equals_it_on_the_other_bus(
    programs: Programs, bus_url: str, model: str, forgets: str, shards: int, topic: str
) -> None:
    check(programs, bus_url, model, forgets, shards, topic)


def test_every_model_is_there() -> None:
    assert {row[0] for row in ROWS} == set(MODELS)
