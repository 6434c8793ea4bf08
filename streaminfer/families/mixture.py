"""Dirichlet times K Normal-inverse-Wisharts: the parameters of a mixture of Gaussians of d coordinates.

eta = (d, concentration (K), K rows of d + d*d + 2 numbers), each row as in `normal_inverse_wishart`. The length alone
does not tell K from d, so the first number does; nothing of the distribution depends on its fraction and T has a 0
there. T, A, entropy and divergence are those of the factors, one after the other or summed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import dirichlet
from streaminfer.families import normal_inverse_wishart as niw

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Parameters(NamedTuple):
    """Concentration (K,), and of each component mean (K, d), kappa and dof (K,), scale (K, d, d)."""

    concentration: Vector
    mean: Matrix
    kappa: Vector
    dof: Vector
    scale: NDArray[np.float64]


class Draws(NamedTuple):
    """Weights (n, K), means (n, K, d) and covariances (n, K, d, d)."""

    weights: Matrix
    means: NDArray[np.float64]
    covs: NDArray[np.float64]


def component(parameters: Parameters, k: int) -> niw.Parameters:
    """The Normal-inverse-Wishart of component k."""
    _, mean, kappa, dof, scale = parameters
    return niw.Parameters(mean[k], float(kappa[k]), float(dof[k]), scale[k])


def to_natural(parameters: Parameters) -> Vector:
    """(d, concentration, natural parameters of each component)."""
    weights = dirichlet.to_natural(_weights(parameters))
    return np.concatenate([[parameters.mean.shape[1]], weights, *map(niw.to_natural, _components(parameters))])


def from_natural(eta: Vector) -> Parameters:
    """The parameters of each factor."""
    weights, rows = _split(eta)
    mean, kappa, dof, scale = zip(*map(niw.from_natural, rows), strict=True)
    concentration = dirichlet.from_natural(weights).concentration
    return Parameters(concentration, np.stack(mean), np.array(kappa), np.array(dof), np.stack(scale))


def in_domain(eta: Vector) -> bool:
    """At least two components, and each factor in its own domain."""
    if eta.ndim != 1 or not np.isfinite(eta).all() or _shape(eta) == (0, 0):
        return False
    weights, rows = _split(eta)
    return dirichlet.in_domain(weights) and all(map(niw.in_domain, rows))


def log_normaliser(parameters: Parameters) -> float:
    """The sum over the factors."""
    return dirichlet.log_normaliser(_weights(parameters)) + sum(map(niw.log_normaliser, _components(parameters)))


def log_partition(eta: Vector) -> float:
    """The sum over the factors."""
    weights, rows = _split(eta)
    return dirichlet.log_partition(weights) + sum(map(niw.log_partition, rows))


def expected_statistics(eta: Vector) -> Vector:
    """(0, E log weights, E[T] of each component)."""
    weights, rows = _split(eta)
    return np.concatenate([[0.0], dirichlet.expected_statistics(weights), *map(niw.expected_statistics, rows)])


def sufficient_statistics(draws: Draws) -> Matrix:
    """(0, log weights, T of each component) of n draws."""
    n, k = draws.weights.shape
    rows = [niw.sufficient_statistics((draws.means[:, i], draws.covs[:, i])) for i in range(k)]
    return np.hstack([np.zeros((n, 1)), dirichlet.sufficient_statistics(draws.weights), *rows])


def sample(parameters: Parameters, rng: np.random.Generator, n: int) -> Draws:
    """The weights first, then the components one by one."""
    weights = dirichlet.sample(_weights(parameters), rng, n)
    means, covs = zip(*(niw.sample(each, rng, n) for each in _components(parameters)), strict=True)
    return Draws(weights, np.stack(means, axis=1), np.stack(covs, axis=1))


def entropy(parameters: Parameters) -> float:
    """The sum over the factors."""
    return dirichlet.entropy(_weights(parameters)) + sum(map(niw.entropy, _components(parameters)))


def kl(p: Parameters, q: Parameters) -> float:
    """The sum over the factors."""
    return dirichlet.kl(_weights(p), _weights(q)) + sum(map(niw.kl, _components(p), _components(q)))


def _weights(parameters: Parameters) -> dirichlet.Parameters:
    return dirichlet.Parameters(parameters.concentration)


def _components(parameters: Parameters) -> list[niw.Parameters]:
    return [component(parameters, k) for k in range(len(parameters.kappa))]


def _shape(eta: Vector) -> tuple[int, int]:
    """(K, d), or (0, 0) if no mixture has a vector of this length and first number."""
    d = round(float(eta[0])) if eta.size and 0.5 < eta[0] <= math.sqrt(eta.size) else 0
    k, left = divmod(eta.size - 1, d + d * d + 3)
    return (k, d) if d and k and not left else (0, 0)


def _split(eta: Vector) -> tuple[Vector, Matrix]:
    """The concentration (K,) and the rows (K, d + d*d + 2) of the components."""
    k, _ = _shape(eta)
    return eta[1 : 1 + k], eta[1 + k :].reshape(k, -1)
