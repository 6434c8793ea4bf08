"""Windows, from a CSV file through `up --until-idle`: exactly the rows inside, whichever worker reads which
partition."""

from __future__ import annotations

from itertools import product

import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Partition
from tests.faults.answers import MODELS
from tests.faults.buses import params_with
from tests.faults.forgotten import last_events, last_seconds
from tests.faults.programs import Programs, document

EVENTS = 2000
PARTITIONS = 4
TOPIC = "windows.events"
SPAN = {"events": 200, "time": 700.0}
FULL = list(product(SPAN, MODELS, (1, 2, 4)))
CHOSEN = {
    "embedded": [("events", "gaussian", 4), ("time", "linear_regression", 1)],
    "kafka": [("events", "linear_regression", 2), ("time", "gaussian", 2)],
}  # fmt: skip


def positions(url: str) -> dict[int, list[int]]:
    """The positions of the records of each data partition; on Kafka there are markers between them."""
    with open_bus(url) as bus:
        ends, starts = bus.ends(TOPIC), bus.starts(TOPIC)
        found: dict[int, list[int]] = {index: [] for index in ends}
        reader = bus.reader({Partition(TOPIC, index): start for index, start in starts.items()})
        while any(reader.position(Partition(TOPIC, index)) < end for index, end in ends.items()):
            for part in reader.poll(1.0).slices:
                found[part.partition.index] += [record.offset for record in part.records]
        reader.close()
    return found


def check(programs: Programs, url: str, kind: str, model: str, workers: int) -> None:
    case, inference = last_seconds(model, EVENTS, SPAN["time"])
    if kind == "events":
        case, inference = MODELS[model](EVENTS), {"forget": {"window_events": SPAN["events"]}}
    spec = case.write_spec(programs.folder / "spec.yaml", "windows", PARTITIONS, minibatch=64, **inference)
    data = case.write_csv(programs.folder / "data.csv")
    programs.run("up", spec, "--data", data, "--workers", workers, "--until-idle", "--bus", url)
    found = document(spec, url)
    if kind == "events":
        frontier = {index: found["frontier"][f"{TOPIC}-{index}"] for index in range(PARTITIONS)}
        case = last_events(model, EVENTS, positions(url), frontier, int(SPAN["events"]))
    case.check(found)
    assert 200 < found["n_effective"] < EVENTS / 2
    programs.run("up", spec, "--until-idle", "--bus", url)
    again = document(spec, url)
    assert again["n_effective"] == found["n_effective"], "a new master restores the same panes"


@pytest.mark.parametrize(("bus_url", "kind", "model", "workers"), params_with(CHOSEN), indirect=["bus_url"])
def test_equals_the_batch_of_the_rows_inside(
    programs: Programs, bus_url: str, kind: str, model: str, workers: int
) -> None:
    check(programs, bus_url, kind, model, workers)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "model", "workers"), FULL)
def test_equals_it_in_every_combination(programs: Programs, bus_url: str, kind: str, model: str, workers: int) -> None:
    check(programs, bus_url, kind, model, workers)
