"""Draws of Gaussian weights given a precision and a linear part."""

from __future__ import annotations

import numpy as np

from streaminfer.families import matrices
from streaminfer.models.binary.gaussian_weights import Prior
from streaminfer.models.model import Matrix, Vector


def tempered(prior: Prior, share: float) -> tuple[Matrix, Vector]:
    """Precision (d, d) and linear part (d,) of the prior to the power of `share`."""
    precision = share * prior.precision
    return np.diag(precision), precision * prior.mean


def sample(precision: Matrix, linear: Vector, rng: np.random.Generator) -> Vector:
    """A draw from N(P^-1 b, P^-1), (d,); P = L L' is solved in units in which its diagonal is 1."""
    units = 1 / np.sqrt(precision.diagonal())
    factor = matrices.cholesky(units[:, None] * precision * units)
    half = matrices.solve_lower(factor, units * linear) + rng.standard_normal(len(linear))
    return np.asarray(units * matrices.solve_lower_transposed(factor, half), dtype=np.float64)
