"""Which few draws stand best for a posterior: each next one makes the kernel Stein discrepancy of the chosen smallest.

That leaves out warm-up and corrects a sampler's bias (Riabiz et al. 2022). The plain form also likes points between
modes and near peaks, as their scores are small. The regularised one (Bénard, Staber and Da Veiga 2023) asks for density
too. A draw may be chosen more than once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streaminfer.measuring import whitening
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.stein import imq
from streaminfer.models.model import Matrix, Vector

Indices = NDArray[np.intp]


def plain(points: Matrix, scores: Matrix, n: int) -> Indices:
    """n indices of points (k, d) with scores (k, d), both on a whitened scale, in the order of choice."""
    points, scores = _checked(points, scores)
    return _greedy(points, scores, imq.diagonal(scores), np.zeros(len(points)), n)


def regularised(
    points: Matrix,
    scores: Matrix,
    log_density: Vector,
    n: int,
    bends: Vector | None = None,
    strength: float | None = None,
) -> Indices:
    """The same, with the positive second derivatives of the log density added and `strength` times it taken off.

    `bends` (k,) are sums of the second derivatives by each whitened coordinate that are above 0; none are if the
    density is log-concave. `strength` is 1 / n by default.
    """
    points, scores = _checked(points, scores)
    logs = np.asarray(log_density, dtype=np.float64)
    if logs.shape != (len(points),) or not np.isfinite(logs).all():
        raise Unknowable("Log densities must be finite, one for each draw.")
    # a constant is the same for all; without it nothing is lost to rounding
    push = -(1 / n if strength is None else strength) * (logs - logs.max())
    start = imq.diagonal(scores) + push
    return _greedy(points, scores, start if bends is None else start + bends, push, n)


def _greedy(points: Matrix, scores: Matrix, start: Vector, push: Vector, n: int) -> Indices:
    """The smallest of `start`, to which each choice adds twice its kernel with all points, and `push`."""
    cost, found = start.copy(), np.empty(n, dtype=np.intp)
    for i in range(n):
        if i:
            newest = slice(found[i - 1], found[i - 1] + 1)
            cost += 2 * imq.pairs(points, scores, points[newest], scores[newest])[:, 0] + push
        found[i] = cost.argmin()
    return found


def _checked(points: Matrix, scores: Matrix) -> tuple[Matrix, Matrix]:
    points, scores, _ = whitening.scored(points, scores)
    # the kernel depends on differences alone, and is most exact around 0
    return points - points.mean(axis=0), scores
