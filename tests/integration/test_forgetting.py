"""Posteriors that forget, from a CSV file through `up --until-idle`: the same whichever worker reads which
partition."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

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
    "embedded": [("events", "gaussian", 4), ("time", "linear_regression", 1), ("time", "categorical", 4)],
    "kafka": [("events", "linear_regression", 2), ("time", "gaussian", 2)],
}  # fmt: skip
"""Each kind on each bus, with one worker and several; every combination in the long run."""


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


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
FORMATS = {
    "embedded": [("avro", "gaussian", 2), ("schema file", "categorical", 1)],
    "kafka": [("rows", "linear_regression", 2)],
}


def check_format(programs: Programs, url: str, form: str, model: str, workers: int) -> None:
    case, inference = by_time(model, EVENTS, HALF_LIFE)
    data = {"format": form}
    if form == "schema file":
        kinds: dict[str, Any] = {"c": "string", "at": ["null", MILLIS]}
        fields = [{"name": name, "type": kinds.get(name, "double")} for name in case.header]
        (programs.folder / "e.avsc").write_text(json.dumps({"type": "record", "name": "E", "fields": fields}))
        data = {"format": "avro", "schema": "e.avsc"}
    spec = case.write_spec(programs.folder / "spec.yaml", "forgets", PARTITIONS, data, minibatch=64, **inference)
    file = case.write_csv(programs.folder / "data.csv")
    programs.run("up", spec, "--data", file, "--workers", workers, "--until-idle", "--bus", url)
    case.check(document(spec, url))


@pytest.mark.parametrize(("bus_url", "form", "model", "workers"), params_with(FORMATS), indirect=["bus_url"])
def test_equals_it_by_time_in_other_formats(
    programs: Programs, bus_url: str, form: str, model: str, workers: int
) -> None:
    check_format(programs, bus_url, form, model, workers)


@pytest.mark.long
@pytest.mark.parametrize("form", ["avro", "rows", "schema file"])
def test_equals_it_by_time_in_every_format(programs: Programs, bus_url: str, form: str) -> None:
    check_format(programs, bus_url, form, "poisson", 2)


@pytest.mark.long
@pytest.mark.parametrize(("forgets", "model", "workers"), FULL)
def test_equals_it_in_every_combination(
    programs: Programs, bus_url: str, forgets: str, model: str, workers: int
) -> None:
    check(programs, bus_url, forgets, model, workers)
