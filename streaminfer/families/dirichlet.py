"""Dirichlet: density prod p_k^(c_k - 1) / B(c) on the simplex of k coordinates that sum to 1.

eta = c (k numbers), T(p) = log p, h(p) = 1 / prod p_k, A = sum log Gamma(c_k) - log Gamma(sum c). Densities are with
respect to Lebesgue measure of the first k - 1 coordinates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import gammaln, psi

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Parameters(NamedTuple):
    """The concentration (k,): pseudo-counts above 0."""

    concentration: Vector


def to_natural(parameters: Parameters) -> Vector:
    """The concentration."""
    return np.array(parameters.concentration, dtype=np.float64)


def from_natural(eta: Vector) -> Parameters:
    """The concentration."""
    return Parameters(np.array(eta, dtype=np.float64))


def in_domain(eta: Vector) -> bool:
    """At least two coordinates, each above 0."""
    return eta.ndim == 1 and eta.size >= 2 and bool(np.isfinite(eta).all() and (eta > 0).all())


def log_normaliser(parameters: Parameters) -> float:
    """sum log Gamma(c_k) - log Gamma(sum c)."""
    c = parameters.concentration
    return float(gammaln(c).sum() - gammaln(c.sum()))


def log_partition(eta: Vector) -> float:
    """sum log Gamma(c_k) - log Gamma(sum c)."""
    return log_normaliser(Parameters(eta))


def expected_statistics(eta: Vector) -> Vector:
    """E log p_k = psi(c_k) - psi(sum c)."""
    return np.asarray(psi(eta) - psi(eta.sum()), dtype=np.float64)


def sufficient_statistics(draws: Matrix) -> Matrix:
    """log p of draws (n, k)."""
    return np.log(draws)


def sample(parameters: Parameters, rng: np.random.Generator, n: int) -> Matrix:
    """Draws of p, (n, k)."""
    return rng.dirichlet(parameters.concentration, n)


def entropy(parameters: Parameters) -> float:
    """log B(c) + (sum c - k) psi(sum c) - sum (c_k - 1) psi(c_k)."""
    c = parameters.concentration
    return log_normaliser(parameters) + float((c.sum() - c.size) * psi(c.sum()) - ((c - 1) * psi(c)).sum())


def kl(p: Parameters, q: Parameters) -> float:
    """A(q) - A(p) - (c_q - c_p) · E_p[log p]."""
    change = q.concentration - p.concentration
    return log_normaliser(q) - log_normaliser(p) - float(change @ expected_statistics(p.concentration))
