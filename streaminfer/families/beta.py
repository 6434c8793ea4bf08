"""Beta: density p^(alpha-1) (1-p)^(beta-1) / B(alpha, beta) on (0, 1).

eta = (alpha, beta), T(p) = (log p, log(1-p)), h(p) = 1/(p (1-p)), A = log B(alpha, beta).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import betaln, psi

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Parameters(NamedTuple):
    """Both are pseudo-counts above 0: the first counts ones, the second zeros."""

    alpha: float
    beta: float


def to_natural(parameters: Parameters) -> Vector:
    """(alpha, beta)."""
    return np.array([parameters.alpha, parameters.beta], dtype=np.float64)


def from_natural(eta: Vector) -> Parameters:
    """(alpha, beta)."""
    alpha, beta = eta.tolist()
    return Parameters(alpha, beta)


def in_domain(eta: Vector) -> bool:
    """alpha > 0 and beta > 0."""
    return eta.shape == (2,) and bool(np.isfinite(eta).all() and (eta > 0).all())


def log_normaliser(parameters: Parameters) -> float:
    """log B(alpha, beta)."""
    return float(betaln(parameters.alpha, parameters.beta))


def log_partition(eta: Vector) -> float:
    """log B(alpha, beta)."""
    return log_normaliser(from_natural(eta))


def expected_statistics(eta: Vector) -> Vector:
    """(E log p, E log(1-p)) = psi(eta) - psi(alpha + beta)."""
    return np.asarray(psi(eta) - psi(eta.sum()), dtype=np.float64)


def sufficient_statistics(draws: Vector) -> Matrix:
    """(log p, log(1-p)) of draws (n,)."""
    return np.column_stack([np.log(draws), np.log1p(-draws)])


def sample(parameters: Parameters, rng: np.random.Generator, n: int) -> Vector:
    """Draws of p, (n,)."""
    return rng.beta(parameters.alpha, parameters.beta, n)


def entropy(parameters: Parameters) -> float:
    """log B - (alpha-1) psi(alpha) - (beta-1) psi(beta) + (alpha+beta-2) psi(alpha+beta)."""
    alpha, beta = parameters
    terms = (alpha - 1) * psi(alpha) + (beta - 1) * psi(beta) - (alpha + beta - 2) * psi(alpha + beta)
    return float(betaln(alpha, beta) - terms)


def kl(p: Parameters, q: Parameters) -> float:
    """A(q) - A(p) - (eta_q - eta_p) · E_p[T]."""
    eta_p, eta_q = to_natural(p), to_natural(q)
    return log_normaliser(q) - log_normaliser(p) - float((eta_q - eta_p) @ expected_statistics(eta_p))
