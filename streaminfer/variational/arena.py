"""The statistics of many keys in a few arrays: a row for each key, or for each key and clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector

FIRST: Final = 1024
GROWTH: Final = 1.5
NONE: Final = -1
NEVER: Final = np.inf
"""The timestamp of a row that is free, or not the first of its key: it never expires by itself."""

Rows = NDArray[np.intp]


class Entry(NamedTuple):
    """One row as it is published: `stamp` is that of the key."""

    label: bytes
    clock: int
    n_events: float
    stamp: float
    n_effective: float
    newest: float
    statistics: Vector


class Arena:
    """Grows by half, never shrinks; rows of dropped keys are used again.

    The rows of a key, one for each of its clocks, are a chain: `rows` leads to the first, `after` from one to the next.
    """

    def __init__(self, size: int) -> None:
        self.rows: dict[bytes, int] = {}
        self.labels: list[bytes] = []
        self.statistics: Matrix = np.empty((0, size))
        self.counts, self.stamps, self.n_effective, self.newest = (np.empty(0) for _ in range(4))
        self.clocks, self.after = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        self.dirty = np.empty(0, dtype=bool)
        self._free: list[int] = []
        self.gone: set[tuple[bytes, int]] = set()
        """(key, clock) of rows that were dropped since the last snapshot. They may be there again: what a snapshot
        has of their earlier life goes first."""

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self.rows)

    @property
    def n_dirty(self) -> int:
        """Rows that have changed since the last snapshot, or are gone."""
        return int(np.count_nonzero(self.dirty[: len(self.labels)])) + len(self.gone)

    @property
    def total_effective(self) -> float:
        """The sum of the weights of all events."""
        return float(self.n_effective[: len(self.labels)].sum())

    def find(self, labels: Sequence[bytes], clock: int) -> Rows:
        """The rows of keys by one clock; NONE for a key without a row."""
        found = self.firsts(labels)
        left = np.flatnonzero(found != NONE)
        while left.size:
            left = left[self.clocks[found[left]] != clock]
            found[left] = self.after[found[left]]
            left = left[found[left] != NONE]
        return found

    def firsts(self, labels: Sequence[bytes]) -> Rows:
        """The first row of each key, which has its timestamp."""
        return np.fromiter(map(self.rows.get, labels, repeat(NONE)), dtype=np.intp, count=len(labels))

    def add(self, label: bytes, clock: int) -> int:
        """A new row for a key and clock that has none; the caller fills it."""
        row = self._free.pop() if self._free else self._new_row()
        self.labels[row], self.clocks[row] = label, clock
        first = self.rows.get(label)
        if first is None:
            self.rows[label] = row
            self.after[row], self.stamps[row] = NONE, -np.inf
        else:
            self.after[row], self.stamps[row] = self.after[first], NEVER
            self.after[first] = row
        return row

    def drop(self, label: bytes) -> None:
        """Forgets a key with all its rows."""
        row = self.rows.pop(label)
        while row != NONE:
            self.gone.add((label, int(self.clocks[row])))
            self.labels[row], self.dirty[row], self.stamps[row], self.n_effective[row] = b"", False, NEVER, 0.0
            self._free.append(row)
            row = int(self.after[row])

    def idle(self, before: float, most: int) -> list[bytes]:
        """At most N keys whose newest timestamp is before a moment."""
        rows = np.flatnonzero(self.stamps[: len(self.labels)] < before)[:most]
        return [self.labels[row] for row in rows.tolist()]

    def changed(self) -> Iterator[Entry]:
        """The rows that have changed since the last snapshot."""
        return map(self._entry, np.flatnonzero(self.dirty[: len(self.labels)]).tolist())

    def of(self, label: bytes) -> Iterator[Entry]:
        """The rows of a key that has some."""
        row = self.rows[label]
        while row != NONE:
            yield self._entry(row)
            row = int(self.after[row])

    def _entry(self, row: int) -> Entry:
        label = self.labels[row]
        return Entry(
            label, int(self.clocks[row]), float(self.counts[row]), float(self.stamps[self.rows[label]]),
            float(self.n_effective[row]), float(self.newest[row]), self.statistics[row],
        )  # fmt: skip

    def published(self) -> None:
        """All that has changed is in a snapshot."""
        self.dirty[:] = False
        self.gone.clear()

    def load(self, labels: Sequence[bytes], clocks: Sequence[int], numbers: Matrix) -> None:
        """Rows of a snapshot, in the place of earlier ones: count, stamp, n_effective, newest, then the statistics."""
        found = np.empty(len(labels), dtype=np.intp)
        for i, (label, clock) in enumerate(zip(labels, clocks, strict=True)):
            row = self.rows.get(label, NONE)
            while row != NONE and self.clocks[row] != clock:
                row = int(self.after[row])
            found[i] = self.add(label, clock) if row == NONE else row
        self.counts[found], self.n_effective[found], self.newest[found] = numbers[:, 0], numbers[:, 2], numbers[:, 3]
        self.statistics[found] = numbers[:, 4:]
        np.maximum.at(self.stamps, self.firsts(labels), numbers[:, 1])

    def _new_row(self) -> int:
        row = len(self.labels)
        if row == len(self.counts):
            capacity = max(FIRST, int(row * GROWTH))
            for name in ("statistics", "counts", "stamps", "n_effective", "newest", "clocks", "after", "dirty"):
                old: NDArray[Any] = getattr(self, name)
                new = np.zeros((capacity, *old.shape[1:]), dtype=old.dtype)
                new[:row] = old
                setattr(self, name, new)
        self.labels.append(b"")
        return row
