"""A member of a simulated group; its partitions change only inside `poll`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streaminfer.bus.protocol import Partition, Poll, Positions, Replaced
from tests.simulation.broker import Broker
from tests.simulation.connection import Connection
from tests.simulation.log import fetch
from tests.simulation.reader import SimulatedReader


class SimulatedMember(SimulatedReader):
    """Keeps its lease by polling; what it owns, it knows with the generation since when."""

    def __init__(self, connection: Connection, group: str, topics: Sequence[str], instance: str | None) -> None:
        super().__init__(connection, {})
        for topic in topics:
            connection.broker.logs(topic)
        self._topics, self._instance = tuple(topics), instance
        self._group = connection.broker.group(group)
        self._number = self._group.join(topics, instance)
        self._owned: dict[Partition, int] = {}
        self._generation = -1
        self._next: tuple[int, dict[Partition, int]] = (-1, {})

    @property
    def group(self) -> str:
        return self._group.name

    @property
    def assignment(self) -> frozenset[Partition]:
        return frozenset(self._owned)

    @property
    def broker(self) -> Broker:
        """The bus of this member: its commits mean nothing on another."""
        return self._connection.broker

    def commit(self, positions: Positions) -> None:
        """See protocol.Member."""
        self._check_open()
        self.broker.check_positions(positions)

        def effect() -> None:
            self.check_owner(positions)
            self._group.positions.update(positions)

        self._connection.act("commit positions", effect)

    def check_owner(self, partitions: Iterable[Partition]) -> None:
        """Raises Fenced unless these partitions are this member's, and were all the time since it last polled."""
        self._check_open()
        self._group.check_owner(self._number, {partition: self._owned.get(partition) for partition in partitions})

    def close(self) -> None:
        """Leaves the group, which frees the partitions at once."""
        if not self._closed:
            super().close()
            if not self._connection.closed:
                self._connection.act("leave", lambda: self._group.leave(self._number))

    def _look(self, max_records: int) -> Poll:
        """Beats, comes back if its lease ran out, and compares what it owns with what it knows."""
        group = self._group
        if not group.beat(self._number):
            if group.was_replaced(self._number, self._instance):
                raise Replaced(f"another member of group {group.name!r} has joined as {self._instance!r}")
            self._number = group.join(self._topics, self._instance)
        if group.generation == self._generation:
            return super()._look(max_records)
        known, owned = self._owned, group.owned(self._number)
        self._next = (group.generation, owned)
        revoked = sorted(partition for partition, since in known.items() if owned.get(partition) != since)
        assigned = sorted(partition for partition, since in owned.items() if known.get(partition) != since)
        kept = [
            (self._logs[partition], position)
            for partition, position in self._positions.items()
            if partition not in self._paused and partition not in revoked
        ]
        return Poll(fetch(kept, max_records), tuple(assigned), tuple(revoked))

    def _adopt(self, polled: Poll) -> None:
        self._generation, self._owned = self._next
        for partition in polled.revoked:
            del self._logs[partition]
            self._forget(partition)
        for partition in polled.assigned:
            self._logs[partition] = self.broker.log(partition)
        super()._adopt(polled)
