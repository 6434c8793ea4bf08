"""How much a poll brings at once, and which member may commit after partitions went back and forth."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Fenced, OutOfRange, Output, Partition, Poll, Position, Topic
from streaminfer.bus.sqlite.log import MAX_POLL_BYTES

MAX_RECORD_BYTES = EmbeddedBus.max_record_bytes


def test_a_poll_is_bounded_in_bytes_and_shares_them(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 4)])
        for index in range(4):
            for _ in range(10):
                bus.publish([Output("t", b"x" * MAX_RECORD_BYTES, partition=index)])
        reader = bus.reader({Partition("t", index): 0 for index in range(4)})
        counts: list[Counter[int]] = []
        while (poll := reader.poll(0)) != Poll():
            counts.append(Counter({s.partition.index: len(s.records) for s in poll.slices}))
            assert 0 < counts[-1].total() * MAX_RECORD_BYTES <= MAX_POLL_BYTES
        assert counts[0] == {0: 4, 1: 4, 2: 4, 3: 4}
        assert sum(counts, Counter()) == {0: 10, 1: 10, 2: 10, 3: 10}


def test_records_larger_than_a_share_still_come(tmp_path: Path) -> None:
    partitions = 40
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", partitions)])
        for index in range(partitions):
            bus.publish([Output("t", b"x" * MAX_RECORD_BYTES, partition=index)])
        reader = bus.reader({Partition("t", index): 0 for index in range(partitions)})
        sizes: list[int] = []
        while (poll := reader.poll(0)) != Poll():
            sizes.append(sum(len(slice_.records) for slice_ in poll.slices))
        assert sum(sizes) == partitions
        assert max(sizes) <= MAX_POLL_BYTES // MAX_RECORD_BYTES


def test_a_few_records_of_many_partitions_come_in_one_poll(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 8)])
        bus.publish([Output("t", b"x", partition=5) for _ in range(1000)])
        reader = bus.reader({Partition("t", index): 0 for index in range(8)})
        (slice_,) = reader.poll(0, max_records=1000).slices
        assert len(slice_.records) == 1000, "partitions without records take no share"


def test_keyless_records_take_turns(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 3), Topic("u", 3)])
        for _ in range(6):
            bus.publish([Output("t", b"x"), Output("u", b"x")])
        assert bus.ends("t") == bus.ends("u") == {0: 2, 1: 2, 2: 2}


def test_a_partition_lost_and_regained_between_polls_is_not_the_same(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus, EmbeddedBus(tmp_path) as other:
        bus.create([Topic("t", 2)])
        first = bus.member("g", ["t"])
        first.poll(0)
        second = other.member("g", ["t"])
        (moved,) = second.poll(0).assigned
        second.commit({moved: Position(10, "done by the second")})
        second.close()
        with pytest.raises(Fenced):
            first.commit({moved: Position(5, "old")})
        assert bus.committed("g") == {moved: Position(10, "done by the second")}
        assert first.poll(0) == Poll((), (moved,), (moved,))
        first.commit({moved: Position(11)})


def test_changes_of_partitions_are_not_lost_to_an_error(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus, EmbeddedBus(tmp_path) as other:
        bus.create([Topic("t", 2)])
        first = bus.member("g", ["t"])
        for partition in first.poll(0).assigned:
            first.seek(partition, 99)
        second = other.member("g", ["t"])
        assert len(first.poll(0).revoked) == 1
        with pytest.raises(OutOfRange):
            first.poll(0)
        second.close()
        assert len(first.poll(0).assigned) == 1


def test_a_poll_shares_its_records_among_partitions_that_have_some(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 4)])
        bus.publish(
            [Output("t", b"x", partition=index) for index, count in enumerate((50, 3, 50, 0)) for _ in range(count)]
        )
        reader = bus.reader({Partition("t", index): 0 for index in range(4)})
        counts = {s.partition.index: len(s.records) for s in reader.poll(0, max_records=30).slices}
        assert counts == {0: 10, 1: 3, 2: 17}, "what a partition leaves goes to those after it"


def test_a_pause_ends_with_the_ownership(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus, EmbeddedBus(tmp_path) as other:
        bus.create([Topic("t", 2)])
        bus.publish([Output("t", b"x", partition=index) for index in range(2)])
        first = bus.member("g", ["t"])
        for partition in first.poll(0).assigned:
            first.pause(partition)
        second = other.member("g", ["t"])
        (lost,) = first.poll(0).revoked
        second.close()
        assert first.poll(0).assigned == (lost,)
        first.seek(lost, 0)
        assert [slice_.partition for slice_ in first.poll(0).slices] == [lost]
