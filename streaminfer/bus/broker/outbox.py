"""Outputs checked and given a partition before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streaminfer.bus.broker.topics import Catalog
from streaminfer.bus.partitioner import partition_of
from streaminfer.bus.protocol import BusError, Output, Partition, TooLarge, Topic


class Parcel(NamedTuple):
    """An output and its partition."""

    partition: Partition
    output: Output


class Outbox:
    """Turns outputs into parcels; keyless outputs take the partitions of a topic in turn."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._turns: dict[str, int] = {}

    def prepare(self, outputs: Sequence[Output]) -> list[Parcel]:
        """Raises UnknownTopic, TooLarge, or BusError for a compacted topic's record without key."""
        topics = {name: self._catalog.entry(name) for name in dict.fromkeys(output.topic for output in outputs)}
        for output in outputs:
            _check(output, topics[output.topic])
        return [Parcel(self._choose(output, topics[output.topic]), output) for output in outputs]

    def _choose(self, output: Output, topic: Topic) -> Partition:
        if output.partition is not None:
            partition = Partition(output.topic, output.partition)
            if not 0 <= output.partition < topic.partitions:
                self._catalog.check_partition(partition)
            return partition
        if output.key is not None:
            return Partition(output.topic, partition_of(output.key, topic.partitions))
        turn = self._turns.get(output.topic, 0)
        self._turns[output.topic] = turn + 1
        return Partition(output.topic, turn % topic.partitions)


def _check(output: Output, topic: Topic) -> None:
    named = sum(len(name.encode()) + len(value) for name, value in output.headers)
    size = len(output.key or b"") + named + len(output.value or b"")
    if size > topic.max_bytes:
        raise TooLarge(f"a record for {output.topic!r} has {size} bytes, the topic accepts at most {topic.max_bytes}")
    if output.key is None and topic.cleanup == "compact":
        raise BusError(f"topic {output.topic!r} is compacted: every record must have a key")
    if output.key is None and output.value is None:
        raise BusError(f"a record for {output.topic!r} has neither key nor value, which Kafka's client does not send")
