"""The batches of memoized inference with rows of words: what each said of its words at its last visit.

Only those are held that a later pass visits: nothing is ever taken away from the others (see `memoized`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.variational.arena import Rows
from streaminfer.variational.methods import memoized
from streaminfer.variational.methods.memoized import TooManyBatches


class Batch(NamedTuple):
    """N documents: for each of their words its row in the arena, its count and its statistics (m, K)."""

    n_events: int
    rows: Rows
    counts: Vector
    statistics: Matrix

    @property
    def n_bytes(self) -> int:
        return self.rows.nbytes + self.counts.nbytes + self.statistics.nbytes

    def aligned(self, rows: Rows) -> Matrix | None:
        """Its statistics in another order of the same rows; None if they are not the same."""
        here, there = np.argsort(self.rows), np.argsort(rows)
        if not np.array_equal(self.rows[here], rows[there]):
            return None
        found = np.empty_like(self.statistics)
        found[there] = self.statistics[here]
        return found


class BatchPlace(NamedTuple):
    """Which batch it is: its partition, and the position of its first event."""

    partition: int
    begin: int


class Batches:
    """Changed in place, as the arena is that they are of."""

    def __init__(self) -> None:
        self._held: dict[int, dict[int, Batch]] = {}
        self._begins: dict[int, list[int]] = {}
        self._n_bytes = 0
        self.changed: set[BatchPlace] = set()
        """Those that have changed since the last snapshot."""

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def __iter__(self) -> Iterator[tuple[BatchPlace, Batch]]:
        """In the order of their places, so that sums are the same whenever they are made."""
        for partition, batches in sorted(self._held.items()):
            for begin in self._begins[partition]:
                yield BatchPlace(partition, begin), batches[begin]

    def begins(self, partition: int) -> Sequence[int]:
        """The first positions of a partition's batches, ascending."""
        return self._begins.get(partition, [])

    def get(self, place: BatchPlace) -> Batch | None:
        return self._held.get(place.partition, {}).get(place.begin)

    def put(self, place: BatchPlace, batch: Batch) -> None:
        """Replaces the batch of that place, or adds one after all others; raises TooManyBatches."""
        before = self.get(place)
        if before is None:
            self._begins.setdefault(place.partition, []).append(place.begin)
        self._n_bytes += batch.n_bytes - (0 if before is None else before.n_bytes)
        if len(self) >= memoized.MOST_BATCHES + (before is not None) or self._n_bytes > memoized.MOST_BYTES:
            raise TooManyBatches(f"{memoized.MOST_BATCHES:,} batches or {memoized.MOST_BYTES >> 30} GB of them")
        self._held.setdefault(place.partition, {})[place.begin] = batch
        self.changed.add(place)

    @property
    def changed_bytes(self) -> int:
        """Bytes of the batches that have changed."""
        return sum(batch.n_bytes for batch in map(self.get, self.changed) if batch is not None)

    def totals(self, n_rows: int, k: int) -> Matrix:
        """The statistics of all batches, (n_rows, K)."""
        found = np.zeros((n_rows, k))
        for _, batch in self:
            found[batch.rows] += batch.statistics
        return found

    def sums(self, k: int) -> Vector:
        """The same of all words together, in an order that does not depend on that of the rows."""
        found = np.zeros(k)
        for _, batch in self:
            found += batch.statistics.sum(axis=0)
        return found
