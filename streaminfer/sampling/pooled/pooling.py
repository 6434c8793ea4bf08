"""The draws of several chains of one target as one value: moments, how good they are, and some of the draws.

Draws have weights: those of steps that become smaller are the steps' sizes. All else counts alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import DomainError, Matrix, Vector
from streaminfer.models.targets import parts
from streaminfer.sampling.pooled import effective

FULL: Final = 64
"""Draws of more numbers than these have variances only; and of these many the effective draws are found."""
MOST_RETAINED: Final = 1000
MOST_BYTES: Final = 8 << 20
"""Of the draws that are retained."""


class Chain(NamedTuple):
    """Draws after warm-up (n, D), their weights (n,), and log densities (n,), if they are known."""

    draws: Matrix
    weights: Vector
    log_density: Vector | None = None

    def last_half(self) -> Chain:
        return Chain(*(None if each is None else each[len(each) // 2 :] for each in self))  # type: ignore[arg-type]


class Statistics(NamedTuple):
    """The sum of weights, the weighted mean (D,), and the second moments around it, per weight.

    Second moments are (D, D), or only the variances (D,) above 64 numbers.
    """

    weight: float
    mean: Vector
    second: NDArray[np.float64]

    @property
    def variances(self) -> Vector:
        return self.second if self.second.ndim == 1 else self.second.diagonal()

    @property
    def vector(self) -> Vector:
        """(weight, mean, second moments row by row)."""
        return np.concatenate([[self.weight], self.mean, self.second.ravel()])

    @classmethod
    def of(cls, vector: Vector, d: int) -> Self:
        """From such a vector for draws of d numbers; raises DomainError if no draws have these moments."""
        if vector.shape != (statistics_size(d),):
            raise DomainError(f"statistics have shape {vector.shape}, not ({statistics_size(d)},)")
        second = vector[1 + d :].reshape(_second_shape(d))
        found = cls(float(vector[0]), vector[1 : 1 + d], second)
        if not np.isfinite(vector).all():
            raise DomainError("a statistic is not finite")
        if found.weight < 0 or (found.variances < 0).any():
            raise DomainError("a weight or a variance is negative")
        return found


def statistics_size(d: int) -> int:
    """The length of the statistics of draws of d numbers."""
    return 1 + d + int(np.prod(_second_shape(d)))


def _second_shape(d: int) -> tuple[int, ...]:
    return (d, d) if d <= FULL else (d,)


@dataclass(frozen=True, slots=True, eq=False)
class Pooled:
    """What draws say together. `retained` (m, D) have equal weights and are in the order of chains, then of time.

    `by_chain` says how many each chain has of them.
    """

    statistics: Statistics
    n_draws: int
    n_effective: float
    retained: Matrix
    by_chain: tuple[int, ...]


def pool(chains: Sequence[Chain], complete: bool, rng: np.random.Generator) -> Pooled:
    """Pools the chains of one segment; until it is complete, the last half of each.

    `rng` is used only if weights differ. Without any draw all numbers are 0.
    """
    if not chains:
        raise ValueError("there are no chains to pool")
    used = [chain if complete else chain.last_half() for chain in chains]
    chosen = _chosen(used, rng)
    return Pooled(
        statistics(used),
        sum(len(chain.draws) for chain in used),
        effective_draws(used),
        np.concatenate([chain.draws[which] for chain, which in zip(used, chosen, strict=True)]),
        tuple(len(which) for which in chosen),
    )


def statistics(chains: Sequence[Chain]) -> Statistics:
    """In two passes: the mean to its last digits, then squares around it."""
    d = chains[0].draws.shape[1]
    weight = float(sum(chain.weights.sum() for chain in chains))
    if weight == 0:
        return Statistics(0.0, np.zeros(d), np.zeros(_second_shape(d)))
    mean = np.zeros(d)
    for draws, shares in _blocks(chains, weight):
        mean += shares @ draws
    left = np.zeros(d)
    for draws, shares in _blocks(chains, weight):
        left += shares @ (draws - mean)
    mean += left
    second = np.zeros(_second_shape(d))
    for draws, shares in _blocks(chains, weight):
        around = np.sqrt(shares)[:, None] * (draws - mean)
        second += around.T @ around if d <= FULL else np.einsum("ij,ij->j", around, around)
    return Statistics(weight, mean, second)


def _blocks(chains: Sequence[Chain], weight: float) -> Iterator[tuple[Matrix, Vector]]:
    """Draws and their shares of the weight, a few megabytes at a time."""
    for chain in chains:
        for each in parts.slices(chain.draws):
            yield chain.draws[each], chain.weights[each] / weight


def effective_draws(chains: Sequence[Chain]) -> float:
    """Of 64 of the numbers and of the log density; draws of different weights are worth (sum w)^2 / sum w^2."""
    d = chains[0].draws.shape[1]
    columns = np.arange(d) if d <= FULL else (2 * np.arange(FULL) + 1) * d // (2 * FULL)
    watched = [chain.draws[:, columns] for chain in chains]
    logs = [chain.log_density for chain in chains if chain.log_density is not None]
    if [len(each) for each in logs] == [len(chain.draws) for chain in chains]:
        watched = [np.column_stack(each) for each in zip(watched, logs, strict=True)]
    weights = np.concatenate([chain.weights for chain in chains])
    if not weights.any():
        return 0.0
    relative = weights / weights.max()
    return effective.least(watched) * float(relative.mean() ** 2 / (relative**2).mean())


def _chosen(chains: Sequence[Chain], rng: np.random.Generator) -> list[NDArray[np.intp]]:
    """Which draws of each chain are retained, in their order.

    Of equal weights: all, or evenly spread ones. Else by systematic resampling: a draw is there, on the average, as
    often as its weight says, and never one more or less than that.
    """
    weights = np.concatenate([chain.weights for chain in chains])
    n, d = len(weights), chains[0].draws.shape[1]
    m = min(n, MOST_RETAINED, MOST_BYTES // (8 * d))
    if not weights.any():
        m = 0
    if m == 0:
        which = np.zeros(0, dtype=np.intp)
    elif weights.min() == weights.max():
        which = (2 * np.arange(m) + 1) * n // (2 * m)
    else:
        sums = np.cumsum(weights)
        found = np.searchsorted(sums, (np.arange(m) + rng.random()) / m * sums[-1], side="right")
        which = np.minimum(found, np.flatnonzero(weights)[-1])
    starts = np.cumsum([0, *(len(chain.draws) for chain in chains)])
    ends = np.searchsorted(which, starts)
    return [which[ends[i] : ends[i + 1]] - starts[i] for i in range(len(chains))]
