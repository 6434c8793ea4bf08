"""Loading a file: every row exactly once, at whatever point the loading was interrupted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Bus, Fenced, Partition, Unavailable
from streaminfer.runtime import names
from streaminfer.runtime.loading import produce
from streaminfer.runtime.loading.files import FileError
from streaminfer.runtime.loading.produce import Loader, publish_rows
from streaminfer.spec import Spec, parse_spec
from tests.simulation.broker import Broker, Clock
from tests.simulation.bus import Faults, SimulatedBus

SPEC = parse_spec({"name": "demo", "data": {"partitions": 3}, "model": {"kind": "poisson", "field": "k"}})
ROWS = 25


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "BATCH_RECORDS", 4)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path / "bus") as opened:
        names.create_topics(SPEC, opened)
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "events.csv"
    found.write_text("k\n" + "".join(f"{i}\n" for i in range(ROWS)))
    return found


def _loaded(bus: Bus, spec: Spec = SPEC) -> list[list[Any]]:
    """The values on every partition."""
    topic = names.topic(spec, "events")
    found: list[list[Any]] = []
    for index, end in bus.ends(topic).items():
        partition = Partition(topic, index)
        records: list[Any] = []
        with bus.reader({partition: 0}) as reader:
            while reader.position(partition) < end:
                records += [json.loads(r.value or b"") for part in reader.poll(1.0).slices for r in part.records]
        found.append([record["k"] for record in records])
    return found


EXPECTED = [[i for i in range(ROWS) if i % 3 == p] for p in range(3)]


def test_rows_go_around_the_partitions_in_their_order(bus: EmbeddedBus, path: Path) -> None:
    progress = list(Loader(SPEC, bus, path).run())
    assert _loaded(bus) == EXPECTED
    size = path.stat().st_size
    assert [step.rows for step in progress] == [4, 8, 12, 16, 20, 24, 25, 25]
    assert progress[-1] == (ROWS, size, size)
    assert all(a.bytes_read <= b.bytes_read for a, b in pairwise(progress))


@pytest.mark.parametrize("stop", range(9))
def test_interrupted_at_every_boundary_and_resumed(bus: EmbeddedBus, path: Path, stop: int) -> None:
    running = Loader(SPEC, bus, path).run()
    for _ in range(min(stop, 7)):
        next(running)
    running.close()
    resumed = Loader(SPEC, bus, path)
    list(resumed.run())
    assert resumed.resumed == min(4 * stop, ROWS)
    assert _loaded(bus) == EXPECTED


def test_interrupted_again_and_again(bus: EmbeddedBus, path: Path) -> None:
    for _ in range(7):
        running = Loader(SPEC, bus, path).run()
        next(running)
        running.close()
    assert _loaded(bus) == EXPECTED
    list(Loader(SPEC, bus, path).run())
    assert _loaded(bus) == EXPECTED


def test_an_old_loader_that_wakes_up_is_fenced(bus: EmbeddedBus, path: Path) -> None:
    old = Loader(SPEC, bus, path).run()
    next(old)
    list(Loader(SPEC, bus, path).run())
    with pytest.raises(Fenced):
        next(old)
    assert _loaded(bus) == EXPECTED


def test_done_then_again_appends_again(bus: EmbeddedBus, path: Path) -> None:
    for _ in range(2):
        again = Loader(SPEC, bus, path)
        list(again.run())
        assert again.resumed == 0
    assert Counter(k for each in _loaded(bus) for k in each) == dict.fromkeys(range(ROWS), 2)


@pytest.mark.parametrize("change", ["k\n9\n1\n2\n3\n4\n5\n", "k\n0\n1\n", "k\n"])
def test_a_changed_file_is_refused(bus: EmbeddedBus, path: Path, change: str) -> None:
    running = Loader(SPEC, bus, path).run()
    next(running)
    running.close()
    path.write_text(change)
    with pytest.raises(FileError) as caught:
        list(Loader(SPEC, bus, path).run())
    assert str(caught.value) == (
        f"{path}: its first 4 rows are not those that an interrupted run put on the bus; "
        "restore the file, or load it under another name"
    )
    assert sum(map(len, _loaded(bus))) == 4


def test_rows_added_behind_the_place_are_loaded(bus: EmbeddedBus, path: Path) -> None:
    running = Loader(SPEC, bus, path).run()
    next(running)
    running.close()
    path.write_text("k\n" + "".join(f"{i}\n" for i in range(6)))
    list(Loader(SPEC, bus, path).run())
    assert _loaded(bus) == [[0, 3], [1, 4], [2, 5]]


def test_two_files_have_two_places(bus: EmbeddedBus, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ndjson"
    other.write_text('{"k":100}\n')
    running = Loader(SPEC, bus, path).run()
    next(running)
    list(Loader(SPEC, bus, other).run())
    list(running)
    assert Counter(k for each in _loaded(bus) for k in each) == {**dict.fromkeys(range(ROWS), 1), 100: 1}


def test_an_error_of_the_bus_repeats_nothing(path: Path) -> None:
    """A commit whose answer is lost took effect; the next loader finds that out by itself."""

    class Lost(Faults):
        def __init__(self) -> None:
            self.commits = 0

        def after(self, operation: str) -> None:
            if operation == "commit":
                self.commits += 1
                if self.commits % 2:
                    raise Unavailable("no answer")

    broker, faults = Broker(Clock()), Lost()
    bus = SimulatedBus(broker, faults)
    names.create_topics(SPEC, bus)
    for _ in range(20):
        try:
            list(Loader(SPEC, bus, path).run())
        except Unavailable:
            continue
        break
    assert _loaded(SimulatedBus(broker)) == EXPECTED


def test_batches_end_by_bytes_too(bus: EmbeddedBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "BATCH_BYTES", 20)
    path = tmp_path / "large.ndjson"
    path.write_text('{"k":1,"note":"0123456789"}\n' * 3)
    assert [step.rows for step in Loader(SPEC, bus, path).run()] == [1, 2, 3, 3]


def test_what_is_no_file_is_refused(bus: EmbeddedBus, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none\.csv: is not a file that can be read"):
        Loader(SPEC, bus, tmp_path / "none.csv")
    with pytest.raises(FileError, match="the name must end in one of"):
        Loader(SPEC, bus, tmp_path / "none.txt")


def test_publish_rows_counts_what_it_wrote(bus: EmbeddedBus) -> None:
    assert publish_rows(SPEC, bus, ({"k": i} for i in range(10))) == 10
    assert sorted(k for each in _loaded(bus) for k in each) == list(range(10))
    assert publish_rows(SPEC, bus, []) == 0
