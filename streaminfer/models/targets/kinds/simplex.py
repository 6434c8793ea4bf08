"""Probabilities p of K things as theta_k = log p_k / p_K, k < K.

With the Jacobian, the product of all p_k, a Dirichlet(c) has the density prod p_k^c_k / B(c) in theta. Derivatives are
those of a multinomial with counts c, and Dirichlet^share is again one, with counts share c.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import gammaln
from streaminfer.models.model import Matrix, Vector

Array = NDArray[np.float64]
SMALLEST: Final = float(np.finfo(np.float64).tiny)
"""What a probability counts as if it has left float64."""


def logs(theta: Array) -> Array:
    """log p (..., K) of theta (..., K - 1)."""
    full = np.concatenate([theta, np.zeros((*theta.shape[:-1], 1))], axis=-1)
    full = full - full.max(axis=-1, keepdims=True)
    return np.asarray(full - np.log(np.exp(full).sum(axis=-1, keepdims=True)), dtype=np.float64)


def from_logs(log_p: Array) -> Array:
    """theta (..., K - 1) of log p (..., K), or of logs that lack the same number."""
    return log_p[..., :-1] - log_p[..., -1:]


def from_probabilities(p: Array) -> Array:
    """theta (..., K - 1) of p (..., K)."""
    return from_logs(np.log(np.maximum(p, SMALLEST)))


def log_density(theta: Array, counts: Vector) -> Array:
    """log Dirichlet(counts) with the Jacobian, (...,)."""
    constant = float(gammaln(counts.sum())) - float(gammaln(counts).sum())
    return np.asarray(constant + logs(theta) @ counts, dtype=np.float64)


def gradient(theta: Array, counts: Array) -> Array:
    """Of sum counts_k log p_k: counts_k - p_k sum counts, (..., K - 1)."""
    p = np.exp(logs(theta))
    return np.asarray((counts - p * counts.sum(axis=-1, keepdims=True))[..., :-1], dtype=np.float64)


def curvature(theta: Vector, total: float) -> Matrix:
    """total (diag(p) - p p') without the last row and column."""
    p = np.exp(logs(theta))[:-1]
    return np.asarray(total * (np.diag(p) - np.outer(p, p)), dtype=np.float64)


def sample(counts: Vector, rng: np.random.Generator, n: int) -> Matrix:
    """theta (n, K - 1) of Dirichlet(counts), by logs of Gammas: a tiny count would give p = 0."""
    drawn = np.log(rng.standard_gamma(counts + 1, (n, len(counts))))
    # Gamma(c) = Gamma(c + 1) U^(1/c); its log is finite for every c.
    drawn -= rng.standard_exponential((n, len(counts))) / counts
    return from_logs(drawn)
