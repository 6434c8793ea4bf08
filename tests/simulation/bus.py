"""The bus protocol over a simulated broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from streaminfer.bus.protocol import Output, Partition, Position, Topic
from tests.simulation.broker import Broker
from tests.simulation.connection import Connection, Faults, Wait
from tests.simulation.member import SimulatedMember
from tests.simulation.reader import SimulatedReader
from tests.simulation.writer import SimulatedWriter

__all__ = ["Faults", "SimulatedBus"]


class SimulatedBus:
    """One process's connection to the broker. See `Connection` for `wait`."""

    def __init__(self, broker: Broker, faults: Faults | None = None, wait: Wait | None = None) -> None:
        self.max_record_bytes = broker.max_record_bytes
        self._broker = broker
        self._connection = Connection(broker, faults or Faults(), wait)
        self._members: list[SimulatedMember] = []

    def __str__(self) -> str:
        return f"simulated:{id(self._broker)}"

    def create(self, topics: Sequence[Topic]) -> None:
        self._connection.act("create", lambda: self._broker.create(topics))

    def topics(self) -> dict[str, Topic]:
        return self._connection.act("topics", lambda: dict(self._broker.topics))

    def public_name(self, topic: str) -> str:
        return topic

    def topic_id(self, topic: str) -> str:
        return self._connection.act("topic_id", lambda: self._broker.topic_id(topic))

    def starts(self, topic: str) -> dict[int, int]:
        return self._connection.act("starts", lambda: {i: log.start for i, log in enumerate(self._broker.logs(topic))})

    def ends(self, topic: str) -> dict[int, int]:
        return self._connection.act("ends", lambda: {i: log.end for i, log in enumerate(self._broker.logs(topic))})

    def hidden(self, topic: str) -> dict[int, int]:
        return dict.fromkeys(self.ends(topic), 0)

    def publish(self, outputs: Sequence[Output]) -> list[int]:
        faults = self._connection.faults

        def effect() -> list[int]:
            if faults.lies("publish"):
                return self._broker.pretend(outputs)
            if faults.repeats("publish"):
                self._broker.append(outputs, commit=False)
            return self._broker.append(outputs, commit=False)

        return self._connection.act("publish", effect)

    def reader(self, positions: Mapping[Partition, int]) -> SimulatedReader:
        self._connection.check_open()
        return SimulatedReader(self._connection, positions)

    def member(self, group: str, topics: Sequence[str], instance: str | None = None) -> SimulatedMember:
        if not topics:
            raise ValueError(f"a member of group {group!r} needs at least one topic")
        member = self._connection.act("join", lambda: SimulatedMember(self._connection, group, topics, instance))
        self._members.append(member)
        return member

    def writer(self, name: str) -> SimulatedWriter:
        return self._connection.act("writer", lambda: SimulatedWriter(self._connection, name))

    def committed(self, group: str) -> dict[Partition, Position]:
        return self._connection.act("committed", lambda: dict(self._broker.group(group).positions))

    def delete_before(self, partition: Partition, position: int) -> None:
        self._connection.act("delete", lambda: self._broker.delete_before(partition, position))

    def close(self) -> None:
        """Its members leave their groups, and the connection ends whatever happens."""
        try:
            while self._members:
                self._members.pop().close()
        finally:
            self._connection.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
