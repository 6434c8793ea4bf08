"""Reading partitions of one's choice from the simulated broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from streaminfer.bus.protocol import BusError, Partition, Poll
from tests.simulation.connection import Connection
from tests.simulation.log import fetch

NAP_S = 0.005
NOTHING = Poll()


class SimulatedReader:
    """Positions of partitions and the records from there on."""

    def __init__(self, connection: Connection, positions: Mapping[Partition, int]) -> None:
        self._connection = connection
        self._logs = {partition: connection.broker.log(partition) for partition in positions}
        # The order is the order of service: who was served goes to the end.
        self._positions = dict(positions)
        self._paused: set[Partition] = set()
        self._closed = False

    def poll(self, timeout: float, max_records: int = 10_000) -> Poll:
        """See protocol.Reader. A poll that raises has moved and told nothing."""
        self._check_open()
        if max_records < 1:
            raise ValueError(f"max_records is {max_records}, it must be at least 1")
        left = timeout
        while True:
            polled = self._connection.act("poll", lambda: self._look(max_records))
            self._adopt(polled)
            if polled != NOTHING or self._connection.wait is None or left <= 0:
                return polled
            nap = min(NAP_S, left)
            self._connection.wait(nap)
            left -= nap

    def seek(self, partition: Partition, position: int) -> None:
        self._check_mine(partition)
        self._positions[partition] = position

    def position(self, partition: Partition) -> int:
        self._check_mine(partition)
        if partition not in self._positions:
            raise BusError(f"{partition} has no position yet: seek first")
        return self._positions[partition]

    def pause(self, partition: Partition) -> None:
        self._check_mine(partition)
        self._paused.add(partition)

    def resume(self, partition: Partition) -> None:
        self._check_mine(partition)
        self._paused.discard(partition)

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _look(self, max_records: int) -> Poll:
        """What there is; changes nothing here."""
        wants = [(self._logs[p], at) for p, at in self._positions.items() if p not in self._paused]
        slices = fetch(wants, max_records)
        return Poll(slices) if slices else NOTHING

    def _adopt(self, polled: Poll) -> None:
        """Moves to where the poll has come."""
        for part in polled.slices:
            del self._positions[part.partition]
            self._positions[part.partition] = part.end

    def _check_open(self) -> None:
        if self._closed:
            raise BusError("this reader is closed")

    def _check_mine(self, partition: Partition) -> None:
        self._check_open()
        if partition not in self._logs:
            raise BusError(f"{partition} is not among this reader's partitions")
