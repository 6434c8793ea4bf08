"""The positions of a reader in its partitions: what readers and members of every bus do alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from streaminfer.bus.protocol import BusError, Partition


class Places:
    """Positions, and partitions that are paused; the order of positions is the order of service."""

    def __init__(self, positions: Mapping[Partition, int]) -> None:
        self._positions = dict(positions)
        self._paused: set[Partition] = set()
        self._closed = False

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

    def _is_mine(self, partition: Partition) -> bool:
        """A reader has those it was opened with; a member those that it was given."""
        return partition in self._positions

    def _served(self, partition: Partition, end: int) -> None:
        """Moves to the end of a slice; the partition that was served goes to the end of the order."""
        self._positions.pop(partition, None)
        self._positions[partition] = end

    def _forget(self, partition: Partition) -> None:
        """Another owner has it now."""
        self._positions.pop(partition, None)
        self._paused.discard(partition)

    def _check_open(self) -> None:
        if self._closed:
            raise BusError("this reader is closed")

    def _check_mine(self, partition: Partition) -> None:
        self._check_open()
        if not self._is_mine(partition):
            raise BusError(f"{partition} is not among this reader's partitions")
