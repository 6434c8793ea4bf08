"""Which events of a segment are bright: a set that changes by a few events a step, and is packed into few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Vector

Indices = NDArray[np.int64]
_BITS: Final = 32
"""Of each packed number; float64 holds such integers exactly."""


@dataclass(frozen=True, eq=False)
class Brightness:
    """The bright ones of n events, and what their lights are at the chain's position.

    `lights` can be computed again from position and indices to the last digit, so they are not packed.
    """

    n: int
    indices: Indices
    """Ascending."""
    lights: Vector | None = None
    """log (L - B) / B of each; None if it is not computed yet."""

    @property
    def n_numbers(self) -> int:
        """How many numbers a packed one has."""
        return -(-self.n // _BITS)

    def packed(self) -> Vector:
        """One bit for each event, 32 to a number."""
        bits = np.zeros(self.n_numbers * _BITS, dtype=np.uint8)
        bits[self.indices] = 1
        return np.packbits(bits, bitorder="little").view("<u4").astype(np.float64)

    def unpacked(self, numbers: Vector) -> Brightness:
        """Another one of as many events; raises ValueError if these numbers cannot be one."""
        fault = f"{len(numbers)} numbers that do not say which of {self.n} events are bright"
        if not ((numbers >= 0) & (numbers < 2**_BITS) & (numbers == np.floor(numbers))).all():
            raise ValueError(fault)
        bits = np.unpackbits(numbers.astype("<u4").view(np.uint8), bitorder="little")
        indices = np.flatnonzero(bits)
        if len(indices) and indices[-1] >= self.n:
            raise ValueError(fault)
        return Brightness(self.n, indices)


def none(n: int) -> Brightness:
    """n dark events."""
    return Brightness(n, np.empty(0, dtype=np.int64))


def thinned(n: int, chance: float, rng: np.random.Generator) -> Indices:
    """Each of n indices with this chance, ascending, by geometric steps: the cost is that of those chosen."""
    if chance >= 1.0:
        return np.arange(n)
    guess = int(n * chance + 6 * np.sqrt(n * chance) + 10)
    found, last = [], -1
    while last < n:
        found.append(last + np.cumsum(rng.geometric(chance, guess)))
        last = int(found[-1][-1])
    every = np.concatenate(found)
    return np.asarray(every[: np.searchsorted(every, n)], dtype=np.int64)


def among(indices: Indices, bright: Indices) -> tuple[NDArray[np.bool_], Indices]:
    """Which of some indices are bright, and the place of each among the bright ones if it is."""
    places = np.searchsorted(bright, indices)
    inside = places < len(bright)
    found = np.zeros(len(indices), dtype=np.bool_)
    found[inside] = bright[places[inside]] == indices[inside]
    return found, places
