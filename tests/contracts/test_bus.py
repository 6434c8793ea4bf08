"""Contract of the bus: topics, and what a record is when it is read again."""

from __future__ import annotations

import time

import pytest

from streaminfer.bus.partitioner import partition_of
from streaminfer.bus.protocol import (
    BusError,
    Output,
    Partition,
    TooLarge,
    Topic,
    TopicMismatch,
    UnknownTopic,
)
from tests.contracts.bus_harness import HARNESSES, Harness, fixture_over, outputs, read_all, values
from tests.remaking import delete_topic

harness = fixture_over(HARNESSES)


def test_topics_are_made_once_and_seen_by_every_connection(harness: Harness) -> None:
    bus, other = harness.open(), harness.open()
    topics = [Topic("a.events", 3, "delete", 60_000), Topic("a.posterior", 1, "compact")]
    bus.create(topics)
    other.create(topics)
    assert other.topics() == {topic.name: topic for topic in topics}
    assert other.starts("a.events") == other.ends("a.events") == {0: 0, 1: 0, 2: 0}


@pytest.mark.parametrize(
    "declared",
    [Topic("t", 1, "delete", 1000), Topic("t", 2, "compact", 1000), Topic("t", 2, "delete", None)],
    ids=["fewer partitions", "other cleanup", "other retention"],
)
def test_a_topic_kept_in_another_way_is_a_mismatch_and_nothing_is_made(harness: Harness, declared: Topic) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2, "delete", 1000)])
    with pytest.raises(TopicMismatch, match="'t'"):
        bus.create([Topic("new", 1), declared])
    assert bus.topics() == {"t": Topic("t", 2, "delete", 1000)}


@pytest.mark.parametrize("topic", [Topic("t", 0), Topic("two words", 1), Topic("", 1), Topic("..", 1)])
def test_impossible_topics_are_refused(harness: Harness, topic: Topic) -> None:
    bus = harness.open()
    with pytest.raises(ValueError, match="topic"):
        bus.create([topic])


def test_partitions_can_be_added_and_are_used(harness: Harness) -> None:
    bus, other = harness.open(), harness.open()
    bus.create([Topic("t", 1)])
    other.publish(outputs("t", 3))
    bus.create([Topic("t", 4)])
    harness.settle()
    keys = [f"key-{i}".encode() for i in range(40)]
    other.publish([Output("t", b"x", key=key) for key in keys])
    assert other.topics()["t"].partitions == 4
    found = [record for record in read_all(other, "t") if record.key]
    assert {record.partition.index for record in found} == {0, 1, 2, 3}
    assert all(record.partition.index == partition_of(record.key or b"", 4) for record in found)
    other.publish([Output("t", b"y", partition=3)])
    assert values(read_all(bus, "t"))[-1] == b"y"


def test_a_topic_keeps_its_id_until_it_is_made_anew(harness: Harness) -> None:
    bus, other = harness.open(), harness.open()
    bus.create([Topic("t", 1), Topic("u", 1)])
    first = bus.topic_id("t")
    assert first
    assert first != bus.topic_id("u")
    bus.create([Topic("t", 3)])
    bus.publish(outputs("t", 3))
    assert (bus.topic_id("t"), other.topic_id("t"), harness.open().topic_id("t")) == (first, first, first)
    delete_topic(bus, "t")
    for each in (bus, other):
        with pytest.raises(UnknownTopic, match="'t'"):
            each.topic_id("t")
    bus.create([Topic("t", 1)])
    assert bus.topic_id("t") == other.topic_id("t") != first


def test_records_come_back_in_order_with_the_offsets_that_publish_gave(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    offsets = bus.publish(outputs("t", 50, partition=1)) + bus.publish(outputs("t", 50, partition=1, prefix="w"))
    records = read_all(harness.open(), "t")
    assert [record.offset for record in records] == offsets == sorted(set(offsets))
    assert values(records) == [f"v{i}".encode() for i in range(50)] + [f"w{i}".encode() for i in range(50)]
    assert {record.partition for record in records} == {Partition("t", 1)}


def test_offsets_are_returned_in_the_order_of_the_outputs(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 3), Topic("u", 2)])
    sent = [Output("tu"[i % 2], str(i).encode(), partition=i % 2) for i in range(20)]
    offsets = bus.publish(sent)
    places = {(r.partition, r.offset): r.value for topic in "tu" for r in read_all(bus, topic)}
    for output, offset in zip(sent, offsets, strict=True):
        assert places[Partition(output.topic, output.partition or 0), offset] == output.value
    assert bus.publish([]) == []


def test_a_key_decides_the_partition_as_in_kafka(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 5)])
    keys = [f"user-{i}".encode() for i in range(60)] + [b"", b"\x00\xff", b"21", b"foobar"]
    bus.publish([Output("t", b"x", key=key) for key in keys])
    records = read_all(bus, "t")
    assert sorted(record.key or b"" for record in records) == sorted(keys)
    assert all(record.partition.index == partition_of(record.key or b"", 5) for record in records)


def test_keyless_records_reach_every_partition(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 3)])
    for i in range(60):
        bus.publish([Output("t", str(i).encode())])
    records = read_all(bus, "t")
    assert {record.partition.index for record in records} == {0, 1, 2}
    assert sorted(int(record.value or b"") for record in records) == list(range(60))


def test_a_machine_whose_clock_is_a_month_ahead_can_write(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    ahead = int(1000 * (time.time() + 30 * 86_400))
    bus.publish([Output("t", b"published", partition=0, timestamp=ahead)])
    with bus.writer("w") as writer:
        writer.commit([Output("t", b"committed", partition=0, timestamp=ahead)])
    assert [record.timestamp for record in read_all(bus, "t")] == [ahead, ahead]


def test_bytes_headers_timestamps_and_tombstones_are_kept_exactly(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    headers = (("trace", b"\x00\x01\xff"), ("trace", b""), ("naïve ☃", b"x" * 300))
    before = int(time.time() * 1000)
    bus.publish(
        [
            Output("t", bytes(range(256)), key=bytes(range(255, -1, -1)), headers=headers, timestamp=1_234_567_890_123),
            Output("t", None, key=b"gone", timestamp=0),
            Output("t", b"", key=b""),
        ]
    )
    full, tombstone, empty = read_all(harness.open(), "t")
    assert (full.value, full.key) == (bytes(range(256)), bytes(range(255, -1, -1)))
    assert (full.headers, full.timestamp) == (headers, 1_234_567_890_123)
    assert (tombstone.value, tombstone.key, tombstone.headers, tombstone.timestamp) == (None, b"gone", (), 0)
    assert (empty.value, empty.key) == (b"", b"")
    assert before - 60_000 <= empty.timestamp <= int(time.time() * 1000) + 60_000


def test_unknown_topics_and_partitions_are_errors_everywhere(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 2)])
    for attempt in (
        lambda: bus.publish([Output("nope", b"x")]),
        lambda: bus.publish([Output("t", b"x", partition=2)]),
        lambda: bus.publish([Output("t", b"x", partition=-1)]),
        lambda: bus.starts("nope"),
        lambda: bus.ends("nope"),
        lambda: bus.reader({Partition("nope", 0): 0}),
        lambda: bus.reader({Partition("t", 2): 0}),
        lambda: bus.member("g", ["t", "nope"]),
        lambda: bus.delete_before(Partition("t", 2), 0),
    ):
        with pytest.raises(UnknownTopic):
            attempt()
    assert bus.ends("t") == bus.starts("t")


def test_records_up_to_the_limit_are_taken_and_larger_ones_refused(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    limit = bus.max_record_bytes
    assert limit >= 1_000_000
    large = [bytes([i]) * limit for i in range(20)]
    for value in large:
        bus.publish([Output("t", value)])
    end = bus.ends("t")
    for record in (Output("t", b"x" * (limit + 1)), Output("t", b"x" * (limit - 5), key=b"123456")):
        with pytest.raises(TooLarge, match=str(limit)):
            bus.publish([record])
    assert bus.ends("t") == end
    assert values(read_all(bus, "t")) == large


def test_a_topic_may_take_larger_records_than_others(harness: Harness) -> None:
    bus = harness.open()
    limit = 2 * bus.max_record_bytes
    bus.create([Topic("large", 1, max_bytes=limit), Topic("small", 1, max_bytes=100)])
    bus.publish([Output("large", b"x" * limit), Output("small", b"x" * 100)])
    for topic, size in (("large", limit), ("small", 100)):
        with pytest.raises(TooLarge, match=str(size)):
            bus.publish([Output(topic, b"x" * (size + 1))])
        assert values(read_all(bus, topic)) == [b"x" * size]
        assert bus.topics()[topic].max_bytes == size


def test_a_compacted_topic_refuses_records_without_key(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("c", 1, "compact")])
    with pytest.raises(BusError):
        bus.publish([Output("c", b"x")])
    assert bus.ends("c") == bus.starts("c")


def test_everything_fails_clearly_after_close_and_close_may_be_repeated(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    reader, member, writer = bus.reader({Partition("t", 0): 0}), bus.member("g", ["t"]), bus.writer("w")
    bus.close()
    bus.close()
    for attempt in (
        lambda: bus.publish([Output("t", b"x")]),
        bus.topics,
        lambda: bus.ends("t"),
        lambda: bus.committed("g"),
        lambda: bus.writer("w"),
        lambda: reader.poll(0),
        lambda: member.poll(0),
        lambda: writer.commit([Output("t", b"x")]),
    ):
        with pytest.raises(BusError, match="closed"):
            attempt()
    for thing in (reader, member, writer):
        thing.close()
    assert harness.open().ends("t") == {0: 0}


def test_parts_of_a_bus_can_be_closed_by_themselves(harness: Harness) -> None:
    bus = harness.open()
    bus.create([Topic("t", 1)])
    with bus.reader({Partition("t", 0): 0}) as reader, bus.member("g", ["t"]) as member, bus.writer("w") as writer:
        pass
    for attempt in (lambda: reader.poll(0), lambda: member.poll(0), lambda: writer.commit([Output("t", b"x")])):
        with pytest.raises(BusError, match="closed"):
            attempt()
    bus.publish([Output("t", b"still open")])
    assert values(read_all(bus, "t")) == [b"still open"]
