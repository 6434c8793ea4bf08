"""Gamma: density rate^shape x^(shape-1) exp(-rate x) / Gamma(shape) on x > 0.

eta = (shape, rate), T(x) = (log x, -x), h(x) = 1/x, A = log Gamma(shape) - shape log(rate).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import psi

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


class Parameters(NamedTuple):
    """Shape and rate (inverse scale), both above 0; the mean is shape / rate."""

    shape: float
    rate: float


def to_natural(parameters: Parameters) -> Vector:
    """(shape, rate)."""
    return np.array([parameters.shape, parameters.rate], dtype=np.float64)


def from_natural(eta: Vector) -> Parameters:
    """(shape, rate)."""
    shape, rate = eta.tolist()
    return Parameters(shape, rate)


def in_domain(eta: Vector) -> bool:
    """shape > 0 and rate > 0."""
    return eta.shape == (2,) and bool(np.isfinite(eta).all() and (eta > 0).all())


def log_normaliser(parameters: Parameters) -> float:
    """log Gamma(shape) - shape log(rate)."""
    return math.lgamma(parameters.shape) - parameters.shape * math.log(parameters.rate)


def log_partition(eta: Vector) -> float:
    """log Gamma(shape) - shape log(rate)."""
    return log_normaliser(from_natural(eta))


def expected_statistics(eta: Vector) -> Vector:
    """(E log x, -E x) = (psi(shape) - log(rate), -shape / rate)."""
    shape, rate = eta.tolist()
    return np.array([float(psi(shape)) - math.log(rate), -shape / rate])


def sufficient_statistics(draws: Vector) -> Matrix:
    """(log x, -x) of draws (n,)."""
    return np.column_stack([np.log(draws), -draws])


def sample(parameters: Parameters, rng: np.random.Generator, n: int) -> Vector:
    """Draws of x, (n,)."""
    return rng.standard_gamma(parameters.shape, n) / parameters.rate


def entropy(parameters: Parameters) -> float:
    """shape - log(rate) + log Gamma(shape) + (1 - shape) psi(shape)."""
    shape, rate = parameters
    return shape - math.log(rate) + math.lgamma(shape) + (1 - shape) * float(psi(shape))


def kl(p: Parameters, q: Parameters) -> float:
    """(a_p - a_q) psi(a_p) - lgamma(a_p) + lgamma(a_q) + a_q log(b_p / b_q) + a_p (b_q - b_p) / b_p."""
    shapes = (p.shape - q.shape) * float(psi(p.shape)) - math.lgamma(p.shape) + math.lgamma(q.shape)
    return shapes + q.shape * math.log(p.rate / q.rate) + p.shape * (q.rate - p.rate) / p.rate
