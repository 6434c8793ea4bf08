"""Contract of the bus: positions, waiting, back-pressure, compaction and removed records."""

from __future__ import annotations

import random
import threading
import time

import pytest

from streaminfer.bus.protocol import BusError, OutOfRange, Output, Partition, Poll, Topic
from tests.contracts.bus_harness import HARNESSES, Harness, fixture_over, outputs, read_all, values

harness = fixture_over(HARNESSES)

P0, P1 = Partition("t", 0), Partition("t", 1)


def test_an_empty_poll_waits_for_its_timeout_and_reports_nothing(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    reader = bus.reader({P0: 0, P1: 0})
    began = time.monotonic()
    assert reader.poll(0.2) == Poll()
    assert 0.19 <= time.monotonic() - began < 5
    began = time.monotonic()
    assert reader.poll(0) == Poll()
    assert time.monotonic() - began < 5
    assert reader.position(P0) == bus.ends("t")[0]


def test_a_reader_reaches_the_end_and_then_goes_on(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    reader = bus.reader({P0: 0})
    for turn in range(3):
        sent = outputs("t", 30, partition=0, prefix=f"{turn}-")
        bus.publish(sent)
        end = bus.ends("t")[0]
        found: list[bytes | None] = []
        while reader.position(P0) < end:
            begin = reader.position(P0)
            for slice_ in reader.poll(1, max_records=7).slices:
                assert slice_.partition == P0
                assert (slice_.begin, reader.position(P0)) == (begin, slice_.end)
                assert len(slice_.records) <= 7
                assert all(slice_.begin <= record.offset < slice_.end for record in slice_.records)
                found += [record.value for record in slice_.records]
        assert found == [output.value for output in sent]
        assert reader.position(P0) == end
        assert reader.poll(0.01) == Poll()


def test_a_waiting_poll_sees_what_another_connection_publishes(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    reader = bus.reader({P0: 0})

    def later() -> None:
        time.sleep(0.2)
        with harness.open() as other:
            other.publish([Output("t", b"news")])

    thread = threading.Thread(target=later)
    thread.start()
    began = time.monotonic()
    poll = reader.poll(20)
    waited = time.monotonic() - began
    thread.join()
    assert [record.value for slice_ in poll.slices for record in slice_.records] == [b"news"]
    assert 0.15 <= waited < 10


def test_seek_goes_back_and_forth_and_to_the_end(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    offsets = bus.publish(outputs("t", 20, partition=0))
    reader = bus.reader({P0: offsets[15]})
    assert values(list(reader.poll(1).slices[0].records)) == [f"v{i}".encode() for i in range(15, 20)]
    reader.seek(P0, offsets[3])
    assert reader.position(P0) == offsets[3]
    assert reader.poll(1, max_records=1).slices[0].records[0].value == b"v3"
    reader.seek(P0, bus.ends("t")[0])
    assert reader.poll(0.01) == Poll()


def test_a_reader_knows_only_its_own_partitions(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    bus.publish(outputs("t", 4, partition=1))
    reader = bus.reader({P0: 0})
    assert reader.poll(0.01) == Poll()
    for attempt in (lambda: reader.seek(P1, 0), lambda: reader.position(P1), lambda: reader.pause(P1)):
        with pytest.raises(BusError, match="t-1"):
            attempt()


def test_a_paused_partition_keeps_its_position_and_brings_nothing(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    bus.publish(outputs("t", 5, partition=0) + outputs("t", 5, partition=1, prefix="w"))
    reader = bus.reader({P0: 0, P1: 0})
    reader.pause(P0)
    ends = bus.ends("t")
    while reader.position(P1) < ends[1]:
        assert {slice_.partition for slice_ in reader.poll(1).slices} == {P1}
    assert reader.poll(0.05) == Poll()
    assert reader.position(P0) == 0
    reader.resume(P0)
    found: list[bytes | None] = []
    while reader.position(P0) < ends[0]:
        found += [record.value for slice_ in reader.poll(1).slices for record in slice_.records]
    assert found == [f"v{i}".encode() for i in range(5)]


def test_max_records_bounds_a_poll_and_no_partition_starves(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 4)])
    for index in range(4):
        bus.publish(outputs("t", 300, partition=index))
    reader = bus.reader({Partition("t", index): 0 for index in range(4)})
    taken = dict.fromkeys(range(4), 0)
    while sum(taken.values()) < 600:
        poll = reader.poll(1, max_records=10)
        assert 1 <= sum(len(slice_.records) for slice_ in poll.slices) <= 10
        for slice_ in poll.slices:
            taken[slice_.partition.index] += len(slice_.records)
    assert min(taken.values()) > 0, taken
    for bad in (0, -1):
        with pytest.raises(ValueError, match="max_records"):
            reader.poll(0, max_records=bad)


def test_fewer_records_than_partitions_still_serves_all(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 4)])
    for index in range(4):
        bus.publish(outputs("t", 50, partition=index))
    reader = bus.reader({Partition("t", index): 0 for index in range(4)})
    served = {slice_.partition.index for _ in range(100) for slice_ in reader.poll(1, max_records=1).slices}
    assert served == {0, 1, 2, 3}


def test_removed_records_are_out_of_range_and_never_returned(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    offsets = bus.publish(outputs("t", 10, partition=0))
    end = bus.ends("t")[0]
    bus.delete_before(P0, offsets[4])
    assert bus.starts("t") == {0: offsets[4], 1: 0}
    assert bus.ends("t")[0] == end
    reader = bus.reader({P0: offsets[0], P1: 0})
    for _ in range(2):
        with pytest.raises(OutOfRange) as caught:
            reader.poll(1)
        error = caught.value
        assert (error.partition, error.position, error.start, error.end) == (P0, offsets[0], offsets[4], end)
    reader.seek(P0, error.start)
    assert values(list(reader.poll(1).slices[0].records)) == [f"v{i}".encode() for i in range(4, 10)]


def test_a_position_beyond_the_end_is_out_of_range(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    bus.publish(outputs("t", 3, partition=0))
    end = bus.ends("t")[0]
    reader = bus.reader({P0: end + 1})
    with pytest.raises(OutOfRange) as caught:
        reader.poll(1)
    assert (caught.value.position, caught.value.end) == (end + 1, end)
    reader.pause(P0)
    assert reader.poll(0.01) == Poll()


def test_a_reader_overtaken_by_removal_gets_out_of_range(harness: Harness) -> None:
    bus, other = harness.open(), harness.open()
    bus.create([Topic("t", 1)])
    for i in range(10):  # large ones: no bus reads all of them ahead
        value = bytes([i]) + random.Random(i).randbytes(bus.max_record_bytes - 1)  # nor compresses them
        bus.publish([Output("t", value, partition=0)])
    reader = bus.reader({P0: 0})
    read = values(list(reader.poll(5, max_records=1).slices[0].records))
    other.delete_before(P0, other.ends("t")[0])
    with pytest.raises(OutOfRange):  # noqa: PT012 (after what was read ahead)
        for _ in range(9):
            read += [record.value for slice_ in reader.poll(5).slices for record in slice_.records]
    assert [value[0] for value in read if value] == list(range(len(read)))


def test_offsets_never_go_back_when_everything_was_removed(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    before = bus.publish(outputs("t", 10, partition=0))
    end = bus.ends("t")[0]
    bus.delete_before(P0, end)
    assert bus.starts("t") == bus.ends("t") == {0: end}
    bus.close()
    again = harness.open()
    after = again.publish(outputs("t", 2, partition=0, prefix="w"))
    assert min(after) >= end > max(before)
    assert values(read_all(again, "t")) == [b"w0", b"w1"]


def test_delete_before_moves_only_forward_and_only_inside_the_log(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    offsets = bus.publish(outputs("t", 10, partition=0))
    bus.delete_before(P0, offsets[6])
    bus.delete_before(P0, offsets[2])
    assert bus.starts("t") == {0: offsets[6]}
    for position in (bus.ends("t")[0] + 1, -1):
        with pytest.raises(OutOfRange):
            bus.delete_before(P0, position)
    assert values(read_all(bus, "t")) == [f"v{i}".encode() for i in range(6, 10)]


def test_compaction_keeps_the_newest_of_each_key(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("c", 2, "compact")])
    sent = [Output("c", f"{i}".encode(), key=f"k{i % 5}".encode()) for i in range(100)]
    for output in sent:
        bus.publish([output])
    newest_offsets = {r.key: r.offset for r in read_all(bus, "c")}
    ends = bus.ends("c")
    harness.compact(bus, "c")
    records = read_all(harness.open(), "c")
    assert len(records) < 100
    assert {r.key: r.value for r in records} == {f"k{i % 5}".encode(): f"{i}".encode() for i in range(95, 100)}
    assert {r.key: r.offset for r in records} == newest_offsets
    assert bus.ends("c") == ends


def test_a_fresh_tombstone_outlives_compaction_and_hides_its_key(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("c", 1, "compact")])
    for i in range(10):
        bus.publish([Output("c", f"{i}".encode(), key=b"a")])
    bus.publish([Output("c", None, key=b"a"), Output("c", b"other", key=b"b")])
    harness.compact(bus, "c")
    assert {r.key: r.value for r in read_all(bus, "c")} == {b"a": None, b"b": b"other"}


def test_readers_in_the_middle_cross_the_holes_of_compaction(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("c", 1, "compact")])
    partition = Partition("c", 0)
    offsets = [offset for i in range(50) for offset in bus.publish([Output("c", f"{i}".encode(), key=b"same")])]
    reader = bus.reader({partition: offsets[0]})
    reader.poll(1, max_records=10)
    stood = reader.position(partition)
    harness.compact(bus, "c")
    end = bus.ends("c")[0]
    found: list[bytes | None] = []
    while reader.position(partition) < end:
        for slice_ in reader.poll(1).slices:
            assert slice_.begin == stood
            stood = slice_.end
            found += [record.value for record in slice_.records]
    assert found[-1] == b"49"
    assert reader.position(partition) == stood == end


def test_a_compacted_log_is_not_cut_at_its_front(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("c", 1, "compact")])
    bus.publish([Output("c", b"x", key=b"k") for _ in range(5)])
    with pytest.raises(BusError, match="compacted"):
        bus.delete_before(Partition("c", 0), 2)
    assert bus.starts("c") == {0: 0}
