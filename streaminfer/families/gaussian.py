"""Multivariate Gaussian in information form: x ~ N(mean, precision^-1), x of d coordinates.

eta = (precision @ mean, precision), d + d*d numbers, the matrix row by row; T(x) = (x, -x x' / 2), h(x) = 1,
A = d/2 log 2 pi - log|precision| / 2 + mean' precision mean / 2.
Only the symmetric part of the matrix counts (see `matrices`), so gradients have full symmetric matrices.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Parameters(NamedTuple):
    """Mean (d,) and precision (d, d), the inverse of the covariance."""

    mean: Vector
    precision: Matrix


def to_natural(parameters: Parameters) -> Vector:
    """(precision @ mean, precision)."""
    mean, precision = parameters
    return np.concatenate([precision @ mean, precision.ravel()])


def from_natural(eta: Vector) -> Parameters:
    """mean = precision^-1 eta_1."""
    linear, precision = _split(eta)
    factor = matrices.cholesky(precision)
    mean = matrices.solve_lower_transposed(factor, matrices.solve_lower(factor, linear))
    return Parameters(mean, precision)


def in_domain(eta: Vector) -> bool:
    """The precision is positive definite."""
    if eta.ndim != 1 or not matrices.dimension(eta.size, 0) or not np.isfinite(eta).all():
        return False
    return matrices.is_positive_definite(_split(eta)[1])


def log_normaliser(parameters: Parameters) -> float:
    """d/2 log 2 pi - log|precision| / 2 + mean' precision mean / 2."""
    mean, precision = parameters
    log_det = matrices.log_determinant(matrices.cholesky(precision))
    return 0.5 * (mean.size * math.log(2 * math.pi) - log_det + float(mean @ precision @ mean))


def log_partition(eta: Vector) -> float:
    """d/2 log 2 pi - log|precision| / 2 + mean' precision mean / 2."""
    return log_normaliser(from_natural(eta))


def expected_statistics(eta: Vector) -> Vector:
    """(mean, -(precision^-1 + mean mean') / 2)."""
    mean, precision = from_natural(eta)
    second = matrices.inverse(matrices.cholesky(precision)) + np.outer(mean, mean)
    return np.concatenate([mean, -0.5 * second.ravel()])


def sufficient_statistics(draws: Matrix) -> Matrix:
    """(x, -x x' / 2) of draws (n, d)."""
    return np.hstack([draws, -0.5 * matrices.outer_rows(draws)])


def sample(parameters: Parameters, rng: np.random.Generator, n: int) -> Matrix:
    """Draws of x, (n, d): mean + L'^-1 z with precision L L'."""
    mean, precision = parameters
    noise = rng.standard_normal((mean.size, n))
    return np.add(mean, matrices.solve_lower_transposed(matrices.cholesky(precision), noise).T)


def entropy(parameters: Parameters) -> float:
    """d/2 (1 + log 2 pi) - log|precision| / 2."""
    d = parameters.mean.size
    log_det = matrices.log_determinant(matrices.cholesky(parameters.precision))
    return 0.5 * (d * (1 + math.log(2 * math.pi)) - log_det)


def kl(p: Parameters, q: Parameters) -> float:
    """(tr(P_q P_p^-1) - d + log|P_p| - log|P_q| + (m_q - m_p)' P_q (m_q - m_p)) / 2."""
    factor_p, factor_q = matrices.cholesky(p.precision), matrices.cholesky(q.precision)
    trace = float((matrices.solve_lower(factor_p, factor_q) ** 2).sum())
    shift = float((((q.mean - p.mean) @ factor_q) ** 2).sum())
    log_dets = matrices.log_determinant(factor_p) - matrices.log_determinant(factor_q)
    return 0.5 * (trace - p.mean.size + log_dets + shift)


def _split(eta: Vector) -> tuple[Vector, Matrix]:
    d = matrices.dimension(eta.size, 0)
    return eta[:d], matrices.symmetric_part(eta[d:], d)
