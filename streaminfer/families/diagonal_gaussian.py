"""Gaussian with independent coordinates in information form: x_i ~ N(mean_i, 1 / precision_i), d of them.

eta = (precision * mean, precision), 2 d numbers; T(x) = (x, -x^2 / 2), h(x) = 1,
A = sum over i of (log 2 pi - log precision_i + precision_i mean_i^2) / 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Parameters(NamedTuple):
    """Mean (d,) and precision (d,), the inverse of the variance."""

    mean: Vector
    precision: Vector


def to_natural(parameters: Parameters) -> Vector:
    """(precision * mean, precision)."""
    mean, precision = parameters
    return np.concatenate([precision * mean, precision])


def from_natural(eta: Vector) -> Parameters:
    """mean = eta_1 / eta_2."""
    linear, precision = np.split(eta, 2)
    return Parameters(linear / precision, precision)


def in_domain(eta: Vector) -> bool:
    """Every precision is above 0."""
    if eta.ndim != 1 or not eta.size or eta.size % 2 or not np.isfinite(eta).all():
        return False
    return bool((eta[eta.size // 2 :] > 0).all())


def log_normaliser(parameters: Parameters) -> float:
    """sum of (log 2 pi - log precision + precision mean^2) / 2."""
    mean, precision = parameters
    return 0.5 * float((math.log(2 * math.pi) - np.log(precision) + precision * mean**2).sum())


def log_partition(eta: Vector) -> float:
    """sum of (log 2 pi - log precision + precision mean^2) / 2."""
    return log_normaliser(from_natural(eta))


def expected_statistics(eta: Vector) -> Vector:
    """(mean, -(1 / precision + mean^2) / 2)."""
    mean, precision = from_natural(eta)
    return np.concatenate([mean, -0.5 * (1 / precision + mean**2)])


def sufficient_statistics(draws: Matrix) -> Matrix:
    """(x, -x^2 / 2) of draws (n, d)."""
    return np.hstack([draws, -0.5 * draws**2])


def sample(parameters: Parameters, rng: np.random.Generator, n: int) -> Matrix:
    """Draws of x, (n, d)."""
    mean, precision = parameters
    return np.add(mean, rng.standard_normal((n, mean.size)) / np.sqrt(precision))


def entropy(parameters: Parameters) -> float:
    """sum of (1 + log 2 pi - log precision) / 2."""
    return 0.5 * float((1 + math.log(2 * math.pi) - np.log(parameters.precision)).sum())


def kl(p: Parameters, q: Parameters) -> float:
    """sum of (r - 1 - log r + precision_q (mean_q - mean_p)^2) / 2, r = precision_q / precision_p."""
    ratio = q.precision / p.precision
    return 0.5 * float((ratio - 1 - np.log(ratio) + q.precision * (q.mean - p.mean) ** 2).sum())
