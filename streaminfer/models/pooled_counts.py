"""Evidence of rows of counts as a function of the prior, and the prior that maximises it (Minka 2000)."""

from __future__ import annotations

import numpy as np

from streaminfer.families.special import psi
from streaminfer.models import pooling
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.predictive import log_rising


def dirichlet_evidences(counts: Matrix, concentration: Vector) -> Vector:
    """log B(c + n) - log B(c) of each row n of counts (k, m); c is (m,)."""
    evidences = -log_rising(float(concentration.sum()), counts.sum(axis=1))
    for c, column in zip(concentration.tolist(), counts.T, strict=True):
        evidences += log_rising(c, column)
    return evidences


def dirichlet(counts: Matrix, own: Vector) -> Vector:
    """The concentration (m,) with the largest evidence of all rows; the search begins at `own`."""
    sums = counts.sum(axis=1)

    def total(logs: Vector) -> tuple[float, Vector]:
        c = np.exp(logs)
        slopes = (psi(counts + c) - psi(c)).mean(axis=0) - (psi(sums + c.sum()) - psi(c.sum())).mean()
        return float(dirichlet_evidences(counts, c).mean()), c * slopes

    return np.exp(pooling.maximise(total, [np.log(own)], _concentrations(counts)))


def _concentrations(counts: Matrix) -> pooling.Bounds:
    """Bounds of each pseudo-count (m,). The upper ones add up to the strongest prior.

    At the lower ones a category would be in one row, or all categories that no row has. So events that were never seen
    stay as possible as these rows allow.
    """
    sums, m = counts.sum(axis=1), counts.shape[1]
    most = pooling.strongest(sums, (m - 1) * np.clip(1 - 1 / sums, 0, None), 1.0)
    weights = sums / (sums + most)
    plain = weights / weights.sum() @ (counts / sums[:, None])
    unsure = 0.5 * m / (sums.sum() + 0.5 * m)
    highest = most * ((1 - unsure) * plain + unsure / m)
    never = max(1, int((counts.sum(axis=0) == 0).sum()))
    lowest = min(1 / m, 1 / (never * float((psi(1 + sums) - psi(1.0)).sum())))
    return pooling.bounds(np.minimum(lowest, np.where(plain > 0, highest, lowest)), np.maximum(lowest, highest))


def gamma_evidences(statistics: Matrix, shape: float, rate: float) -> Vector:
    """A(posterior) - A(prior) + log base measure of each row (count, exposure, base)."""
    counts, exposures, base = statistics.T
    none = -shape * np.log1p(exposures / rate)
    evidences: Vector = log_rising(shape, counts) + none - counts * np.log(rate + exposures) + base
    return evidences


def gamma(statistics: Matrix, own_shape: float, own_rate: float) -> tuple[float, float]:
    """Shape and rate with the largest evidence of all rows, searched as shape and mean = shape / rate."""
    counts, exposures, _ = statistics.T

    def total(logs: Vector) -> tuple[float, Vector]:
        shape, rate = _shape_and_rate(logs)
        by_shape = (psi(shape + counts) - psi(shape) - np.log1p(exposures / rate)).mean()
        by_log_rate = ((shape * exposures - rate * counts) / (rate + exposures)).mean()
        slopes = np.array([shape * by_shape + by_log_rate, -by_log_rate])
        return float(gamma_evidences(statistics, shape, rate).mean()), slopes

    start = np.log([own_shape, own_shape / own_rate])
    return _shape_and_rate(pooling.maximise(total, [start], _shape_and_mean(counts, exposures)))


def _shape_and_mean(counts: Vector, exposures: Vector) -> pooling.Bounds:
    """Bounds of shape and mean.

    The mean is in the range of the rows, or half a count in all. A prior worth half a count is always possible, and no
    shape is so low that none of the rows would have a count.
    """
    rates, rare = counts / exposures, 0.5 / exposures.sum()
    usual = max(rare, float(np.average(rates, weights=exposures)))
    most = pooling.strongest(exposures, np.ones(len(exposures)), 0.5 / usual)
    weighted = max(rare, float(np.average(rates, weights=exposures / (exposures + most))))
    lowest = min(0.5, 1 / float(np.log1p(exposures * weighted).sum()))
    ranges = np.maximum([rates.min(), rates.max()], rare)
    return pooling.bounds(np.array([lowest, ranges[0]]), np.array([max(0.5, most * weighted), ranges[1]]))


def _shape_and_rate(logs: Vector) -> tuple[float, float]:
    shape, mean = np.exp(logs).tolist()
    return shape, shape / mean
