"""Reading partitions of one's choice, and waiting for more without work."""

from __future__ import annotations

from collections.abc import Mapping

from streaminfer.bus.places import Places
from streaminfer.bus.protocol import Partition, Poll
from streaminfer.bus.sqlite.catalog import Catalog
from streaminfer.bus.sqlite.log import Want, fetch
from streaminfer.bus.sqlite.store import Store

FIRST_NAP_S = 0.001
LONGEST_NAP_S = 0.015


class SqliteReader(Places):
    """Positions of partitions and the records from there on."""

    def __init__(self, store: Store, catalog: Catalog, positions: Mapping[Partition, int]) -> None:
        super().__init__(positions)
        self._store = store
        self._catalog = catalog
        self._ids = {partition: catalog.id_of(partition) for partition in positions}

    def poll(self, timeout: float, max_records: int = 10_000) -> Poll:
        """See protocol.Reader. The file is looked at again only when someone has committed since."""
        self._check_open()
        if max_records < 1:
            raise ValueError(f"max_records is {max_records}, it must be at least 1")
        deadline = self._store.monotonic() + timeout
        nap = FIRST_NAP_S
        seen: tuple[int, int] | None = None
        while True:
            version = self._store.version()  # before looking: what comes in between is then seen as new
            if version != seen or self._needs_attention():
                seen = version
                found = self._look(max_records)
                if found != Poll():
                    return found
            left = deadline - self._store.monotonic()
            if left <= 0:
                return Poll()
            self._store.sleep(min(nap, left))
            nap = min(nap * 1.5, LONGEST_NAP_S)

    def _needs_attention(self) -> bool:
        """Whether time alone is a reason to look again."""
        return False

    def _look(self, max_records: int) -> Poll:
        wants = [
            Want(partition, self._ids[partition], position)
            for partition, position in self._positions.items()
            if partition not in self._paused
        ]
        with self._store.read() as connection:
            slices = fetch(connection, wants, max_records)
        for slice_ in slices:
            self._served(slice_.partition, slice_.end)
        return Poll(tuple(slices))

    def _is_mine(self, partition: Partition) -> bool:
        return partition in self._ids
