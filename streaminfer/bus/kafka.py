"""The Kafka bus: the topics, groups and transactions of a cluster that any number of machines share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Self, TypeVar

from streaminfer.bus.broker import bounds
from streaminfer.bus.broker.connection import Connection
from streaminfer.bus.broker.errors import translated
from streaminfer.bus.broker.fetching.reader import KafkaReader
from streaminfer.bus.broker.member import Identity, KafkaMember
from streaminfer.bus.broker.outbox import Outbox
from streaminfer.bus.broker.producers import Producer
from streaminfer.bus.broker.settings import Address, Settings
from streaminfer.bus.broker.topics import Catalog
from streaminfer.bus.broker.writer import KafkaWriter
from streaminfer.bus.protocol import BusError, OutOfRange, Output, Partition, Position, Topic

Opened = TypeVar("Opened", KafkaReader, KafkaMember, KafkaWriter)


class KafkaBus:
    """One connection to the cluster at `address`, made when it is first needed.

    `session_s`: how long a silent member keeps its partitions. `deadline_s`: how long the cluster may take to answer.
    """

    max_record_bytes: int = 1 << 20

    def __init__(
        self, address: Address, settings: Settings | None = None, *, session_s: float = 10.0, deadline_s: float = 10.0
    ) -> None:
        self._connection = Connection(address, settings or Settings(), session_s, deadline_s)
        self._catalog = Catalog(self._connection)
        self._outbox = Outbox(self._catalog)
        self._producer: Producer | None = None
        self._opened: list[KafkaReader | KafkaWriter] = []

    def __str__(self) -> str:
        return f"kafka:{self._connection.address}"

    def create(self, topics: Sequence[Topic]) -> None:
        self._catalog.create(topics)

    def topics(self) -> dict[str, Topic]:
        return self._catalog.topics()

    def public_name(self, topic: str) -> str:
        return self._connection.names.outside(topic)

    def topic_id(self, topic: str) -> str:
        return self._catalog.topic_id(topic)

    def allowed(self, topic: str) -> frozenset[str] | None:
        """The operations that this user may do with a topic; None if the broker does not say."""
        return self._catalog.allowed(topic)

    def starts(self, topic: str) -> dict[int, int]:
        found = bounds.starts(self._connection, self._partitions(topic))
        return {partition.index: start for partition, start in found.items()}

    def ends(self, topic: str) -> dict[int, int]:
        found = bounds.ends(self._connection, self._partitions(topic))
        return {partition.index: end for partition, end in found.items()}

    def hidden(self, topic: str) -> dict[int, int]:
        found = bounds.hidden(self._connection, self._partitions(topic))
        return {partition.index: count for partition, count in found.items()}

    def publish(self, outputs: Sequence[Output]) -> list[int]:
        """See protocol.Bus. A producer that has failed is not used again: what it still holds is unknown."""
        self._connection.check_open()
        parcels = self._outbox.prepare(outputs)
        try:
            with translated("publishing", self._connection.needs("Write", "topic", *(each.topic for each in outputs))):
                if self._producer is None:
                    self._producer = Producer(self._connection)
                return self._producer.deliver(parcels, time.monotonic() + self._connection.deadline_s)
        except BaseException:
            self._drop_producer()
            raise

    def reader(self, positions: Mapping[Partition, int]) -> KafkaReader:
        for partition in positions:
            self._catalog.check_partition(partition)
        self._connection.check_open()
        return self._keep(KafkaReader(self._connection, positions))

    def member(self, group: str, topics: Sequence[str], instance: str | None = None) -> KafkaMember:
        self._connection.check_open()
        return self._keep(KafkaMember(self._connection, self._catalog, Identity(group, tuple(topics), instance)))

    def writer(self, name: str) -> KafkaWriter:
        self._connection.check_open()
        return self._keep(KafkaWriter(self._connection, self._catalog, self._outbox, name))

    def committed(self, group: str) -> dict[Partition, Position]:
        return bounds.committed(self._connection, group)

    def delete_before(self, partition: Partition, position: int) -> None:
        self._catalog.check_partition(partition)
        if self._catalog.entry(partition.topic).cleanup == "compact":
            raise BusError(
                f"topic {partition.topic!r} is compacted: only newer records of their keys replace its records"
            )
        start = bounds.starts(self._connection, [partition])[partition]
        end = bounds.ends(self._connection, [partition])[partition]
        if not 0 <= position <= end:
            raise OutOfRange(partition, position, start, end)
        if position > start:
            place = self._connection.names.place(partition)
            needs = self._connection.needs("Delete", "topic", partition.topic)
            self._connection.ask("removing records", lambda admin: admin.delete_records({place: position}), needs)

    def close(self) -> None:
        """Its members leave their groups, its writers end, and every thread and socket of its is gone."""
        try:
            while self._opened:
                self._opened.pop().close()
            self._drop_producer()
        finally:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _partitions(self, topic: str) -> list[Partition]:
        return [Partition(topic, index) for index in range(self._catalog.count(topic))]

    def _keep(self, opened: Opened) -> Opened:
        self._opened = [*(other for other in self._opened if not other.closed), opened]
        return opened

    def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
