"""Gaussians N(mean, cov) by the Cholesky factor L of their precision, cov^-1 = L L', for the targets that have them.

theta has the mean (d,) and then the lower triangle of L, row by row, with logs on its diagonal. All terms of theta's
density, of events and of a Normal-inverse-Wishart prior alike, are of one form:
sum c_i log L_ii - tr(L' A L) / 2, where A = sum w e e' and E = sum w e are of deviations e = x - mean with weights w.
A prior adds its scale to A, and counts as kappa events at its mean. Leading axes are many Gaussians at once.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices
from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.families.special import multigammaln
from streaminfer.models.model import Matrix, Vector

Array = NDArray[np.float64]


def size(d: int) -> int:
    """How many numbers a triangle has."""
    return d * (d + 1) // 2


@cache
def _triangle(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of a lower triangle, row by row."""
    return np.tril_indices(d)


def factors(entries: Array, d: int) -> Array:
    """L (..., d, d) of triangles (..., size)."""
    lower = np.zeros((*entries.shape[:-1], d, d))
    i, j = _triangle(d)
    lower[..., i, j] = entries
    diagonal = np.arange(d)
    lower[..., diagonal, diagonal] = np.exp(lower[..., diagonal, diagonal])
    return lower


def entries(lower: Array) -> Array:
    """The triangles (..., size) of L (..., d, d)."""
    d = lower.shape[-1]
    diagonal = np.arange(d)
    logs = lower.copy()
    logs[..., diagonal, diagonal] = np.log(lower[..., diagonal, diagonal])
    i, j = _triangle(d)
    return np.asarray(logs[..., i, j], dtype=np.float64)


def from_covs(covs: Array) -> Array:
    """L of covariances (..., d, d): cov = U U' with an upper U, and L = U^-1'."""
    flipped = np.linalg.cholesky(covs[..., ::-1, ::-1])
    upper = flipped[..., ::-1, ::-1]
    return np.asarray(np.swapaxes(np.linalg.inv(upper), -1, -2), dtype=np.float64)


def covs(lower: Array) -> Array:
    """The covariances of L (..., d, d), exactly symmetric."""
    inverse = np.linalg.inv(lower)
    return np.asarray(np.swapaxes(inverse, -1, -2) @ inverse, dtype=np.float64)


def log_densities(means: Array, lower: Array, rows: Matrix) -> Array:
    """log N(x | mean, cov) of rows (n, d): (..., n)."""
    d = rows.shape[1]
    white = (rows - means[..., None, :]) @ lower
    logs = np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum(axis=-1) - 0.5 * d * math.log(2 * math.pi)
    return np.asarray(logs[..., None] - 0.5 * (white * white).sum(axis=-1), dtype=np.float64)


def deviations(means: Array, rows: Matrix, weights: Array | None = None) -> tuple[Array, Array, Array]:
    """(n, E, A) of rows (n, d) around means (..., d); weights are (..., n), or (n,) for all means."""
    around = rows - means[..., None, :]
    weighted = around if weights is None else around * weights[..., None]
    total = float(len(rows)) if weights is None else weights.sum(axis=-1)
    n = np.array(np.broadcast_to(total, means.shape[:-1]), dtype=np.float64)
    return n, weighted.sum(axis=-2), np.swapaxes(weighted, -1, -2) @ around


def gradient(lower: Array, coefficients: Array, E: Array, A: Array) -> Array:
    """By (mean, triangle), (..., d + size): L L' E, and -A L with c_i and a factor L_ii on the diagonal.

    Coefficients are (..., d).
    """
    d = lower.shape[-1]
    by_mean = (lower @ (np.swapaxes(lower, -1, -2) @ E[..., None]))[..., 0]
    by_factor = -(A @ lower)
    diagonal = np.arange(d)
    by_factor[..., diagonal, diagonal] *= lower[..., diagonal, diagonal]
    by_factor[..., diagonal, diagonal] += coefficients
    i, j = _triangle(d)
    return np.concatenate([by_mean, by_factor[..., i, j]], axis=-1)


def scores(mean: Vector, lower: Matrix, rows: Matrix) -> Matrix:
    """The gradient of each row's log density, (n, d + size)."""
    d = len(mean)
    around = rows - mean
    white = around @ lower
    by_factor = -around[:, :, None] * white[:, None, :]
    diagonal = np.arange(d)
    by_factor[:, diagonal, diagonal] = by_factor[:, diagonal, diagonal] * lower.diagonal() + 1
    i, j = _triangle(d)
    return np.hstack([white @ lower.T, by_factor[:, i, j]])


def curvature(lower: Matrix, n: float, E: Vector, A: Matrix) -> Matrix:
    """Minus the second derivatives of one Gaussian's terms by (mean, triangle); n is the sum of weights."""
    d = len(lower)
    i, j = _triangle(d)
    scale = np.where(i == j, lower[i, j], 1.0)
    by_factor = np.where(j[:, None] == j, A[np.ix_(i, i)], 0.0) * scale[:, None] * scale
    on_diagonal = np.flatnonzero(i == j)
    by_factor[on_diagonal, on_diagonal] += (A @ lower).diagonal() * lower.diagonal()
    white = lower.T @ E
    across = -(np.eye(d)[:, i] * white[j] + lower[:, j] * E[i]) * scale
    return np.block([[n * (lower @ lower.T), across], [across.T, by_factor]])


def prior_terms(means: Array, prior: niw.Parameters) -> tuple[Vector, Array, Array]:
    """The coefficients (d,) and E, A (..., ) of a Normal-inverse-Wishart prior with the Jacobian.

    c_i = dof + 2 - i: 1 of the mean's density, dof - d - 1 of the Wishart, d + 1 - i of the factor, 1 of the logs.
    """
    d = len(prior.mean)
    away = prior.mean - means
    A = prior.scale + prior.kappa * away[..., :, None] * away[..., None, :]
    return prior.dof + 1 - np.arange(d, dtype=np.float64), prior.kappa * away, A


def log_prior(means: Array, lower: Array, prior: niw.Parameters) -> Array:
    """The log density of (mean, triangle), (...,)."""
    d = len(prior.mean)
    coefficients, _, A = prior_terms(means, prior)
    logs = np.log(np.diagonal(lower, axis1=-2, axis2=-1))
    trace = (lower * (A @ lower)).sum(axis=(-2, -1))
    log_det = matrices.log_determinant(matrices.cholesky(prior.scale))
    normaliser = 0.5 * prior.dof * (d * math.log(2) - log_det) + multigammaln(0.5 * prior.dof, d)
    constant = 0.5 * d * math.log(prior.kappa / (2 * math.pi)) + d * math.log(2) - normaliser
    return np.asarray(constant + logs @ coefficients - 0.5 * trace, dtype=np.float64)


def is_proper(prior: niw.Parameters, share: float) -> bool:
    """Whether prior^share has a finite integral over theta: share (dof + 2 - d) > 1."""
    return share >= 1 or share * (prior.dof + 2 - len(prior.mean)) > 1
