"""Which rows the gradient of a step is estimated from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streaminfer.sampling.randomness import Key

Indices = NDArray[np.int64]


class Minibatches(Protocol):
    """Minibatches of `size` of n rows."""

    @property
    def n(self) -> int: ...

    @property
    def size(self) -> int: ...

    def indices(self, rng: np.random.Generator, first: int, count: int) -> Indices:
        """The rows of steps first, ..., first + count - 1: (count, size)."""


@dataclass(frozen=True)
class Random:
    """Independent and with replacement."""

    n: int
    size: int

    def indices(self, rng: np.random.Generator, first: int, count: int) -> Indices:  # noqa: ARG002 (steps are alike)
        return rng.integers(0, self.n, (count, self.size))


@dataclass(frozen=True)
class Passing:
    """The rows that there are: those of the minibatch that has just arrived."""

    size: int

    @property
    def n(self) -> int:
        return self.size

    def indices(self, rng: np.random.Generator, first: int, count: int) -> Indices:  # noqa: ARG002 (there is no choice)
        return np.tile(np.arange(self.size), (count, 1))


@dataclass(frozen=True)
class Shuffled:
    """Consecutive parts of one permutation after the other; what is left of one goes into the next minibatch.

    A permutation depends on the key and its number alone, so a step finds its rows without those before it.
    """

    n: int
    size: int
    key: Key
    _last: dict[int, Indices] = field(default_factory=dict, repr=False, compare=False)

    def indices(self, rng: np.random.Generator, first: int, count: int) -> Indices:  # noqa: ARG002 (has its own key)
        begin, end = first * self.size, (first + count) * self.size
        parts = []
        while begin < end:
            epoch, offset = divmod(begin, self.n)
            part = self._permutation(epoch)[offset : offset + end - begin]
            parts.append(part)
            begin += len(part)
        return np.concatenate([np.empty(0, dtype=np.int64), *parts]).reshape(count, self.size)

    def _permutation(self, epoch: int) -> Indices:
        if epoch not in self._last:
            made = self.key.of(f"{self.key.purpose}/permutation").generator(epoch).permutation(self.n)
            if len(self._last) > 1:
                self._last.clear()
            self._last[epoch] = made
        return self._last[epoch]
