"""Compaction and retention of the embedded bus, which happen by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import BusError, OutOfRange, Output, Partition, Topic, TopicMismatch
from streaminfer.bus.sqlite import cleanup
from tests.contracts.bus_harness import read_all, values

DAY_MS = 24 * 3600 * 1000
P0 = Partition("t", 0)


class Clock:
    """Time that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    @property
    def ms(self) -> int:
        return int(self.now * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bus(tmp_path: Path, clock: Clock) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path, clock=clock) as bus:
        bus.create([Topic("t", 1, "delete", 60_000), Topic("for-ever", 1), Topic("c", 1, "compact")])
        yield bus


def test_compaction_runs_every_few_hundred_records(bus: EmbeddedBus) -> None:
    for i in range(0, 3000, 10):
        bus.publish([Output("c", str(j).encode(), key=b"k%d" % (j % 3)) for j in range(i, i + 10)])
    records = read_all(bus, "c")
    assert len(records) < cleanup.COMPACT_WEIGHT + 3
    assert values(records)[-3:] == [b"2997", b"2998", b"2999"]
    assert bus.starts("c") == {0: 0}
    assert bus.ends("c") == {0: 3000}


def test_large_records_are_compacted_sooner(bus: EmbeddedBus) -> None:
    for i in range(40):
        bus.publish([Output("c", bytes([i]) * 1_000_000, key=b"k")])
    assert len(read_all(bus, "c")) < 10


def test_compaction_waits_for_as_much_new_as_there_is_old(bus: EmbeddedBus) -> None:
    bus.publish([Output("c", b"old", key=b"%d" % i) for i in range(2000)])
    for i in range(1000):
        bus.publish([Output("c", b"new", key=b"%d" % (i % 10))])
    assert len(read_all(bus, "c")) == 3000
    bus.publish([Output("c", b"new", key=b"%d" % (i % 10)) for i in range(1000)])
    assert len(read_all(bus, "c")) == 2000


def test_tombstones_go_after_a_day_with_everything_of_their_key(bus: EmbeddedBus, clock: Clock) -> None:
    bus.publish([Output("c", b"1", key=b"a"), Output("c", None, key=b"a"), Output("c", b"2", key=b"b")])
    clock.now += 23 * 3600
    bus.compact("c")
    assert values(read_all(bus, "c")) == [None, b"2"]
    clock.now += 2 * 3600
    bus.compact("c")
    assert values(read_all(bus, "c")) == [b"2"]


def test_a_removed_tail_is_crossed_to_the_end(bus: EmbeddedBus, clock: Clock) -> None:
    partition = Partition("c", 0)
    bus.publish([Output("c", None, key=b"%d" % i, timestamp=clock.ms - 2 * DAY_MS) for i in range(10)])
    reader = bus.reader({partition: 4})
    bus.compact("c")
    (slice_,) = reader.poll(0).slices
    assert (slice_.begin, slice_.end, slice_.records) == (4, 10, ())
    assert bus.publish([Output("c", b"next", key=b"k")]) == [10]


def test_only_compacted_topics_are_compacted(bus: EmbeddedBus) -> None:
    with pytest.raises(BusError, match="'t'"):
        bus.compact("t")


def test_retention_removes_the_old_front_of_the_log(bus: EmbeddedBus, clock: Clock) -> None:
    ages = [90, 80, 70, 50, 75, 10]
    for topic in ("t", "for-ever"):
        bus.publish([Output(topic, b"%d" % age, timestamp=clock.ms - age * 1000) for age in ages])
    bus.retain()
    assert bus.starts("t") == {0: 3}
    assert values(read_all(bus, "t")) == [b"50", b"75", b"10"], "an old record behind a young one stays"
    assert len(read_all(bus, "for-ever")) == 6
    with pytest.raises(OutOfRange):
        bus.reader({P0: 2}).poll(0)


def test_retention_of_everything_keeps_the_offsets(bus: EmbeddedBus, clock: Clock) -> None:
    bus.publish([Output("t", b"x") for _ in range(5)])
    clock.now += 61
    bus.retain()
    assert bus.starts("t") == bus.ends("t") == {0: 5}
    assert bus.publish([Output("t", b"y")]) == [5]


def test_appends_run_retention_at_most_twice_a_minute(bus: EmbeddedBus, clock: Clock) -> None:
    bus.publish([Output("t", b"x", timestamp=clock.ms - 100_000) for _ in range(5)])
    clock.now += 29
    bus.publish([Output("for-ever", b"x")])
    assert bus.starts("t") == {0: 0}
    clock.now += 2
    bus.publish([Output("for-ever", b"x")])
    assert bus.starts("t") == {0: 5}


def test_retention_works_in_bounded_steps(bus: EmbeddedBus, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "RETAIN_RECORDS", 10)
    bus.publish([Output("t", b"x", timestamp=clock.ms - 100_000) for _ in range(35)] + [Output("t", b"young")])
    clock.now += 31
    bus.publish([Output("for-ever", b"x")])
    assert bus.starts("t") == {0: 10}
    bus.retain()
    assert bus.starts("t") == {0: 35}
    assert values(read_all(bus, "t")) == [b"young"]


def test_a_compacted_topic_with_a_retention_keeps_nothing_for_longer(bus: EmbeddedBus, clock: Clock) -> None:
    bus.create([Topic("both", 1, "compact", DAY_MS)])
    bus.publish([Output("both", b"old", key=b"a"), Output("both", b"older", key=b"b")])
    clock.now += 20 * 3600
    bus.publish([Output("both", b"new", key=b"a")])
    clock.now += 5 * 3600
    bus.publish([Output("for-ever", b"x")])
    assert values(read_all(bus, "both")) == [b"new"]
    assert bus.ends("both") == {0: 3}


def test_a_compacted_topic_of_before_gets_the_retention_that_is_declared_now(tmp_path: Path, clock: Clock) -> None:
    with EmbeddedBus(tmp_path / "old", clock=clock) as bus:
        bus.create([Topic("c", 1, "compact")])
        bus.publish([Output("c", b"old", key=b"a")])
        bus.create([Topic("c", 1, "compact", DAY_MS)])
        assert bus.topics()["c"].retention_ms == DAY_MS
        clock.now += 2 * 24 * 3600
        bus.publish([Output("c", b"new", key=b"b")])
        assert values(read_all(bus, "c")) == [b"new"]
        with pytest.raises(TopicMismatch, match="retention_ms"):
            bus.create([Topic("c", 1, "compact")])  # it would keep less than declared
