"""How wrong decisions on subsets are, and how wrong that makes the chain.

Delta is the largest error of the probability of being accepted. By a concentration bound it is at most the rule's
`error`. By the t-test it follows from a random walk: means of subsets, in units of their deviations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from streaminfer.families.special import ndtr, ndtri
from streaminfer.models.model import Vector
from streaminfer.sampling.settings import Settings, Stopping
from streaminfer.sampling.subsets import deciding, rules
from streaminfer.sampling.subsets.rules import Seen

_POINTS: Final = 401
"""Of the grid on which the density of the walk is kept between its two thresholds."""
_LEVELS: Final = 2001
"""Uniform numbers over which a probability is integrated."""


def by_contraction(largest: float, eta: float) -> float:
    """TV <= Delta / (1 - eta), if TV(P T, pi) <= eta TV(P, pi) for each P (Korattikara, Chen & Welling 2014)."""
    _check_part("eta", eta)
    return min(1.0, largest / (1 - eta))


def by_ergodicity(largest: float, scale: float, steps: int, rate: float) -> float:
    """TV <= A h Delta / (1 - lambda), if TV(T^k, pi) <= A lambda^floor(k / h) (Bardenet, Doucet & Holmes 2014)."""
    _check_part("rate", rate)
    return min(1.0, scale * steps * largest / (1 - rate))


def _check_part(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and below 1 (got {value!r})")


def sequential_error(standard: float, sizes: Sequence[int], n: int, error: float) -> float:
    """The chance that a t-test decides wrongly, whose threshold is `standard` deviations of the mean of all away.

    `sizes` are those after each batch. The deviation is that of values by sqrt(N - 1). With pi the part that is read, z
    is normal given the z before: of mean standard (pi' - pi) / ((1 - pi) r) + z sqrt(pi (1 - pi') / (pi' (1 - pi))),
    r = sqrt(pi' (1 - pi')), and of variance (pi' - pi) / (pi' (1 - pi)). It stops beyond Phi^-1(1 - error) on
    either side, and at pi = 1 it is right.
    """
    limit = -ndtri(error)
    if limit <= 0:
        limit = 0.0
    away, wrong, before = abs(standard), 0.0, 0.0
    grid = np.linspace(-limit, limit, _POINTS)
    weights = np.full(_POINTS, grid[1] - grid[0]) if limit else np.zeros(_POINTS)
    weights[[0, -1]] *= 0.5
    starts, mass = np.zeros(1), np.ones(1)
    for size in sizes:
        part = size / n
        shift = away * (part - before) / ((1 - before) * math.sqrt(part * (1 - part)))
        means = shift + starts * math.sqrt(before * (1 - part) / (part * (1 - before)))
        deviation = math.sqrt((part - before) / (part * (1 - before)))
        wrong += float(mass @ ndtr((-limit - means) / deviation))
        density = _normal((grid[:, None] - means) / deviation) / deviation
        starts, mass, before = grid, weights * (density @ mass), part
    return wrong


def _normal(z: Vector) -> Vector:
    return np.asarray(np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi), dtype=np.float64)


def acceptance_error(mean: float, deviation: float, known: float, sizes: Sequence[int], n: int, error: float) -> float:
    """The probability of being accepted by a t-test less the exact one: its error integrated over u.

    `mean` and `deviation` are of the values of all events, `known` is the log of the ratio of all else. A mistake
    rejects if the exact test accepts, which is for u up to the exact probability, and accepts above it.
    """
    middles = (np.arange(_LEVELS) + 0.5) / _LEVELS
    thresholds = (np.log(middles) - known) / n
    standard = (mean - thresholds) * math.sqrt(n - 1) / deviation
    table = np.linspace(0.0, 8.0, 81)
    wrong = np.array([sequential_error(float(each), sizes, n, error) for each in table])
    found = np.interp(np.abs(standard), table, wrong, right=0.0)
    return float(np.where(standard > 0, -found, found).mean())


def largest_acceptance_error(test: Stopping, first: int, n: int) -> float:
    """Delta: at most this, for any two places. Of the t-test as if means of batches were normal."""
    if first >= n:
        return 0.0
    if test.rule != "t":
        return test.error
    return sequential_error(0.0, list(deciding.sizes(test, first, n)), n, test.error)


def stopping_time(test: Stopping, first: int, n: int, gap: float, most: float) -> int:
    """How many events a decision reads at most, but for a chance of `error`, if the mean is `gap` from the threshold.

    As long as no bound c fails, a decision stops where gap > 2 c, at the latest. Values are at most `most` in size, so
    their deviation is at most that times sqrt(m / (m - 1)).
    """
    for k, m in enumerate(deciding.sizes(test, first, n), start=1):
        deviation = most * math.sqrt(m / (m - 1)) if m > 1 else 0.0
        seen, chance = Seen(m, n, 0.0, deviation, k), rules.delta(test.error, k)
        if m > 1 and gap > 2 * rules.BOUNDS[test.rule](seen, most, chance):
            return m
    return n


def of_segments(settings: Settings, n_events: Iterable[int]) -> float | None:
    """Delta of the decisions of chains on segments of so many events; None if they are not on subsets, or exact."""
    test = settings.stopping
    if test is None:
        return None
    found = [largest_acceptance_error(test, settings.minibatch or 1, n) for n in n_events if n]
    return max(found, default=None)
