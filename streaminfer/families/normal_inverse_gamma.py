"""Normal-inverse-Gamma: w | s2 ~ N(mean, s2 P^-1), s2 ~ InvGamma(shape, rate), w of d coordinates.

eta = (P mean, P, shape, rate + mean' P mean / 2), d + d*d + 2 numbers, P row by row, symmetric part counts;
T(w, s2) = (w/s2, -w w'/(2 s2), -log s2, -1/s2), h = s2^-(1 + d/2),
A = log Gamma(shape) - shape log(rate) - log|P| / 2 + d/2 log 2 pi.
The last entry of eta holds `rate` beside mean' P mean / 2. If the latter is 1e14 times larger, only `Parameters` and
what takes them still know the rate. They hold the Cholesky factor of P for the same reason.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices
from streaminfer.families.special import psi

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SMALLEST_GAMMA = 1e-290
"""Draws of a Gamma with a tiny shape leave float64; they are held here so that their inverse is finite."""


class Parameters(NamedTuple):
    """Mean (d,); factor (d, d), the lower L of the precision P = L L' in units of 1/s2; shape and rate of s2.

    The rate is the scale of the inverse Gamma: E[s2] = rate / (shape - 1).
    """

    mean: Vector
    factor: Matrix
    shape: float
    rate: float


def to_natural(parameters: Parameters) -> Vector:
    """(P mean, P, shape, rate + mean' P mean / 2)."""
    mean, factor, shape, rate = parameters
    half = factor.T @ mean
    return np.concatenate([factor @ half, (factor @ factor.T).ravel(), [shape, rate + 0.5 * float(half @ half)]])


def from_natural(eta: Vector) -> Parameters:
    """mean = P^-1 eta_1, rate = eta_4 - eta_1' P^-1 eta_1 / 2."""
    linear, precision, shape, raw = _split(eta)
    factor = matrices.cholesky(precision)
    half = matrices.solve_lower(factor, linear)
    return Parameters(matrices.solve_lower_transposed(factor, half), factor, shape, raw - 0.5 * float(half @ half))


def in_domain(eta: Vector) -> bool:
    """P is positive definite, shape > 0 and rate > 0."""
    if eta.ndim != 1 or not matrices.dimension(eta.size, 2) or not np.isfinite(eta).all():
        return False
    if eta[-2] <= 0 or not matrices.is_positive_definite(_split(eta)[1]):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return from_natural(eta).rate > 0


def log_normaliser(parameters: Parameters) -> float:
    """log Gamma(shape) - shape log(rate) - log|P| / 2 + d/2 log 2 pi."""
    mean, factor, shape, rate = parameters
    log_det = matrices.log_determinant(factor)
    return math.lgamma(shape) - shape * math.log(rate) + 0.5 * (mean.size * math.log(2 * math.pi) - log_det)


def log_partition(eta: Vector) -> float:
    """log Gamma(shape) - shape log(rate) - log|P| / 2 + d/2 log 2 pi."""
    return log_normaliser(from_natural(eta))


def expected_statistics(eta: Vector) -> Vector:
    """(m a/b, -(P^-1 + m m' a/b) / 2, psi(a) - log b, -a/b) with mean m, shape a, rate b."""
    mean, factor, shape, rate = from_natural(eta)
    inverse_variance = shape / rate
    second = matrices.inverse(factor) + inverse_variance * np.outer(mean, mean)
    log_variance = math.log(rate) - float(psi(shape))
    return np.concatenate([inverse_variance * mean, -0.5 * second.ravel(), [-log_variance, -inverse_variance]])


def sufficient_statistics(draws: tuple[Matrix, Vector]) -> Matrix:
    """(w/s2, -w w'/(2 s2), -log s2, -1/s2) of draws w (n, d), s2 (n,)."""
    w, variance = draws
    columns = [w / variance[:, None], -0.5 * matrices.outer_rows(w) / variance[:, None]]
    return np.hstack([*columns, -np.log(variance)[:, None], -1 / variance[:, None]])


def sample(parameters: Parameters, rng: np.random.Generator, n: int) -> tuple[Matrix, Vector]:
    """Joint draws of w (n, d) and s2 (n,)."""
    mean, factor, shape, rate = parameters
    variance = rate / np.maximum(rng.standard_gamma(shape, n), SMALLEST_GAMMA)
    noise = matrices.solve_lower_transposed(factor, rng.standard_normal((mean.size, n))).T
    return mean + np.sqrt(variance)[:, None] * noise, variance


def entropy(parameters: Parameters) -> float:
    """H[InvGamma(shape, rate)] + d/2 (1 + log 2 pi + E log s2) - log|P| / 2."""
    mean, factor, shape, rate = parameters
    d, digamma = mean.size, float(psi(shape))
    inverse_gamma = shape + math.log(rate) + math.lgamma(shape) - (1 + shape) * digamma
    normal = d * (1 + math.log(2 * math.pi) + math.log(rate) - digamma) - matrices.log_determinant(factor)
    return inverse_gamma + 0.5 * normal


def kl(p: Parameters, q: Parameters) -> float:
    """E over s2 of the Gaussians' KL, plus the KL of the inverse Gammas."""
    trace = float((matrices.solve_lower(p.factor, q.factor) ** 2).sum())
    shift = p.shape / p.rate * float((((q.mean - p.mean) @ q.factor) ** 2).sum())
    log_dets = matrices.log_determinant(p.factor) - matrices.log_determinant(q.factor)
    shapes = (p.shape - q.shape) * float(psi(p.shape)) - math.lgamma(p.shape) + math.lgamma(q.shape)
    rates = q.shape * math.log(p.rate / q.rate) + p.shape * (q.rate - p.rate) / p.rate
    return 0.5 * (trace - p.mean.size + log_dets + shift) + shapes + rates


def _split(eta: Vector) -> tuple[Vector, Matrix, float, float]:
    d = matrices.dimension(eta.size, 2)
    return eta[:d], matrices.symmetric_part(eta[d:-2], d), float(eta[-2]), float(eta[-1])
