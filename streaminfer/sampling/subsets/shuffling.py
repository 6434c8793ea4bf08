"""Subsets without replacement at the cost of their size: Fisher–Yates that stops early and is undone.

An order of all N events is made once. A subset swaps its events to the front; afterwards the swaps are taken back in
their reverse order. So the order is again what it was, and a subset depends on its random numbers alone.
"""

from __future__ import annotations

import numpy as np

from streaminfer.models.model import Vector
from streaminfer.sampling.gradients.minibatches import Indices


def swapped(order: Indices, uniform: Vector, begin: int, swaps: Indices) -> None:
    """Puts an event of the rest of `order` at each place from `begin`, one for each number of `uniform`."""
    n = len(order)
    for k in range(len(uniform)):
        i = begin + k
        j = min(i + int(uniform[k] * (n - i)), n - 1)
        swaps[k] = j
        order[i], order[j] = order[j], order[i]


def swapped_back(order: Indices, begin: int, swaps: Indices) -> None:
    """Takes the same swaps back, the last first."""
    for k in range(len(swaps) - 1, -1, -1):
        i, j = begin + k, swaps[k]
        order[i], order[j] = order[j], order[i]


class Shuffled:
    """Batch after batch of distinct events, in a random order; `undo` makes it as new."""

    def __init__(self, n: int) -> None:
        self._order: Indices = np.arange(n)
        self._swaps: list[tuple[int, Indices]] = []
        self.taken = 0

    def take(self, count: int, rng: np.random.Generator) -> Indices:
        """The next events (count,), of those that were not taken yet."""
        from streaminfer.sampling.subsets import fast

        swaps: Indices = np.empty(count, dtype=np.int64)
        fast.swaps().swapped(self._order, rng.random(count), self.taken, swaps)
        self._swaps.append((self.taken, swaps))
        found = self._order[self.taken : self.taken + count].copy()
        self.taken += count
        return found

    def undo(self) -> None:
        from streaminfer.sampling.subsets import fast

        for begin, swaps in reversed(self._swaps):
            fast.swaps().swapped_back(self._order, begin, swaps)
        self._swaps, self.taken = [], 0
