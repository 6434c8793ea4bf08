"""Reading partitions of one's choice from the simulated broker."""

from __future__ import annotations

from collections.abc import Mapping

from streaminfer.bus.places import Places
from streaminfer.bus.protocol import Partition, Poll
from tests.simulation.connection import Connection
from tests.simulation.log import fetch

NAP_S = 0.005
NOTHING = Poll()


class SimulatedReader(Places):
    """Positions of partitions and the records from there on."""

    def __init__(self, connection: Connection, positions: Mapping[Partition, int]) -> None:
        super().__init__(positions)
        self._connection = connection
        self._logs = {partition: connection.broker.log(partition) for partition in positions}

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

    def _look(self, max_records: int) -> Poll:
        """What there is; changes nothing here."""
        wants = [(self._logs[p], at) for p, at in self._positions.items() if p not in self._paused]
        slices = fetch(wants, max_records)
        return Poll(slices) if slices else NOTHING

    def _adopt(self, polled: Poll) -> None:
        """Moves to the end of the poll."""
        for part in polled.slices:
            self._served(part.partition, part.end)

    def _is_mine(self, partition: Partition) -> bool:
        return partition in self._logs
