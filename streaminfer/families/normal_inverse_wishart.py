"""Normal-inverse-Wishart: mu | S ~ N(mean, S / kappa), S ~ InvWishart(dof, scale), mu of d coordinates.

eta = (kappa mean, scale + kappa mean mean', kappa, dof), d + d*d + 2 numbers, the matrix row by row, symmetric part
counts; T(mu, S) = (S^-1 mu, -S^-1 / 2, -mu' S^-1 mu / 2, -log|S| / 2), h = |S|^-(d+2)/2,
A = log Gamma_d(dof/2) + dof d/2 log 2 - dof/2 log|scale| - d/2 log kappa + d/2 log 2 pi (Murphy 2007, section 8).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices
from streaminfer.families.special import multigammaln, psi

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Parameters(NamedTuple):
    """Mean (d,); kappa, the precision of mu in units of S^-1; dof > d - 1; scale (d, d) = E[S] (dof - d - 1)."""

    mean: Vector
    kappa: float
    dof: float
    scale: Matrix


def to_natural(parameters: Parameters) -> Vector:
    """(kappa mean, scale + kappa mean mean', kappa, dof)."""
    mean, kappa, dof, scale = parameters
    return np.concatenate([kappa * mean, (scale + kappa * np.outer(mean, mean)).ravel(), [kappa, dof]])


def from_natural(eta: Vector) -> Parameters:
    """mean = eta_1 / kappa, scale = eta_2 - eta_1 eta_1' / kappa."""
    d = matrices.dimension(eta.size, 2)
    kappa, dof = eta[-2:].tolist()
    scale = matrices.symmetric_part(eta[d:-2], d) - np.outer(eta[:d], eta[:d]) / kappa
    return Parameters(eta[:d] / kappa, kappa, dof, scale)


def in_domain(eta: Vector) -> bool:
    """kappa > 0, dof > d - 1 and the scale is positive definite."""
    d = matrices.dimension(eta.size, 2) if eta.ndim == 1 else 0
    if not d or not np.isfinite(eta).all() or eta[-2] <= 0 or eta[-1] <= d - 1:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        scale = from_natural(eta).scale
        return bool(np.isfinite(scale).all()) and matrices.is_positive_definite(scale)


def log_normaliser(parameters: Parameters) -> float:
    """log Gamma_d(dof/2) + dof d/2 log 2 - dof/2 log|scale| - d/2 log(kappa / 2 pi)."""
    return log_normaliser_of(parameters.kappa, parameters.dof, matrices.cholesky(parameters.scale))


def log_normaliser_of(kappa: float, dof: float, factor: Matrix) -> float:
    """The same with the scale's lower Cholesky factor."""
    d = len(factor)
    wishart = float(multigammaln(dof / 2, d)) + 0.5 * dof * (d * math.log(2) - matrices.log_determinant(factor))
    return wishart - 0.5 * d * math.log(kappa / (2 * math.pi))


def log_partition(eta: Vector) -> float:
    """log Gamma_d(dof/2) + dof d/2 log 2 - dof/2 log|scale| - d/2 log(kappa / 2 pi)."""
    return log_normaliser(from_natural(eta))


def expected_statistics(eta: Vector) -> Vector:
    """(dof W m, -dof W / 2, -(d / kappa + dof m' W m) / 2, -E log|S| / 2) with W = scale^-1."""
    mean, kappa, dof, scale = from_natural(eta)
    factor = matrices.cholesky(scale)
    precision = dof * matrices.inverse(factor)
    quadratic = mean.size / kappa + float(mean @ precision @ mean)
    log_det = expected_log_determinant(dof, factor)
    return np.concatenate([precision @ mean, -0.5 * precision.ravel(), [-0.5 * quadratic, -0.5 * log_det]])


def sufficient_statistics(draws: tuple[Matrix, NDArray[np.float64]]) -> Matrix:
    """(S^-1 mu, -S^-1 / 2, -mu' S^-1 mu / 2, -log|S| / 2) of draws mu (n, d), S (n, d, d)."""
    mu, cov = draws
    precision = np.linalg.inv(cov)
    linear = np.einsum("nij,nj->ni", precision, mu)
    quadratic = np.einsum("ni,ni->n", linear, mu)
    log_det = np.linalg.slogdet(cov)[1]
    columns = [linear, -0.5 * precision.reshape(len(mu), -1), -0.5 * quadratic[:, None], -0.5 * log_det[:, None]]
    return np.hstack(columns)


def sample(parameters: Parameters, rng: np.random.Generator, n: int) -> tuple[Matrix, NDArray[np.float64]]:
    """Joint draws of mu (n, d) and S (n, d, d)."""
    return sample_with(parameters, matrices.cholesky(parameters.scale), rng, n)


def sample_with(
    parameters: Parameters, factor: Matrix, rng: np.random.Generator, n: int
) -> tuple[Matrix, NDArray[np.float64]]:
    """The same with the scale's factor L: S = L (B B')^-1 L', Bartlett's lower triangular B of a Wishart(dof, I)."""
    mean, kappa, dof, _ = parameters
    d = mean.size
    bartlett = np.tril(rng.standard_normal((n, d, d)), -1)
    bartlett[:, range(d), range(d)] = np.sqrt(rng.chisquare(dof - np.arange(d), (n, d)))
    root = np.linalg.solve(bartlett, np.broadcast_to(factor.T, (n, d, d)))
    mu = mean + np.einsum("nji,nj->ni", root, rng.standard_normal((n, d))) / math.sqrt(kappa)
    return mu, np.einsum("nki,nkj->nij", root, root)


def entropy(parameters: Parameters) -> float:
    """A - eta · E[T] - E[log h], with the terms in the mean cancelled."""
    mean, _, dof, scale = parameters
    d = mean.size
    log_det = expected_log_determinant(dof, matrices.cholesky(scale))
    return log_normaliser(parameters) + 0.5 * (d * (dof + 1) + (dof + d + 2) * log_det)


def kl(p: Parameters, q: Parameters) -> float:
    """E over S of the Gaussians' KL, plus the KL of the inverse Wisharts."""
    return kl_with(p, matrices.cholesky(p.scale), q, matrices.cholesky(q.scale))


def kl_with(p: Parameters, factor_p: Matrix, q: Parameters, factor_q: Matrix) -> float:
    """The same with the scales' factors."""
    d = p.mean.size
    ratio = q.kappa / p.kappa
    shift = q.kappa * p.dof * float((matrices.solve_lower(factor_p, q.mean - p.mean) ** 2).sum())
    normal = d * (ratio - 1 - math.log(ratio)) + shift
    # Without the kappa term of both, which the line above has, this is the inverse Wisharts' Bregman divergence.
    change = log_normaliser_of(1.0, q.dof, factor_q) - log_normaliser_of(1.0, p.dof, factor_p)
    log_det = (q.dof - p.dof) * expected_log_determinant(p.dof, factor_p)
    trace = p.dof * (float((matrices.solve_lower(factor_p, factor_q) ** 2).sum()) - d)
    return change + 0.5 * (normal + log_det + trace)


def expected_log_determinant(dof: float, factor: Matrix) -> float:
    """E log|S| = log|scale| - d log 2 - sum over i < d of psi((dof - i) / 2)."""
    d = len(factor)
    return matrices.log_determinant(factor) - d * math.log(2) - float(psi(0.5 * (dof - np.arange(d))).sum())
