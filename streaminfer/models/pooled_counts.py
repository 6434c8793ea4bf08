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

    return np.exp(pooling.maximise(total, [np.log(own)], pooling.bounds(np.ones(len(own)))))


def gamma_evidences(statistics: Matrix, shape: float, rate: float) -> Vector:
    """A(posterior) - A(prior) + log base measure of each row (count, exposure, base)."""
    counts, exposures, base = statistics.T
    none = -shape * np.log1p(exposures / rate)
    evidences: Vector = log_rising(shape, counts) + none - counts * np.log(rate + exposures) + base
    return evidences


def gamma(statistics: Matrix, own_shape: float, own_rate: float) -> tuple[float, float]:
    """Shape and rate with the largest evidence of all rows, searched as shape and mean = shape / rate."""
    counts, exposures, _ = statistics.T
    mean = (counts.sum() + 0.5) / exposures.sum()

    def total(logs: Vector) -> tuple[float, Vector]:
        shape, rate = _shape_and_rate(logs)
        by_shape = (psi(shape + counts) - psi(shape) - np.log1p(exposures / rate)).mean()
        by_log_rate = ((shape * exposures - rate * counts) / (rate + exposures)).mean()
        slopes = np.array([shape * by_shape + by_log_rate, -by_log_rate])
        return float(gamma_evidences(statistics, shape, rate).mean()), slopes

    start = np.log([own_shape, own_shape / own_rate])
    return _shape_and_rate(pooling.maximise(total, [start], pooling.bounds(np.array([1.0, mean]))))


def _shape_and_rate(logs: Vector) -> tuple[float, float]:
    shape, mean = np.exp(logs).tolist()
    return shape, shape / mean
