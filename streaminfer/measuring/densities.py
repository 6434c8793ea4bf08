"""A published posterior on the unconstrained scale of its model's target: draws, and its density if it has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector


class LogDensity(NamedTuple):
    """A log density of theta, Jacobian included, with all constants."""

    value: Callable[[Matrix], Vector]
    """Of each theta (k, d): (k,)."""
    gradient: Callable[[Matrix], Matrix]
    """(k, d)."""


class Published(NamedTuple):
    """A posterior in theta (d,)."""

    dimension: int
    sample: Callable[[np.random.Generator, int], Matrix]
    """n draws of theta, (n, d)."""
    density: LogDensity | None
    """None if it has none: draws, and classes of a user's own that do not say it."""


def density_of(posterior: Any, target: Any) -> Published:
    """A posterior of the model whose target this is; raises TypeError if the target has no theta."""
    if not hasattr(target, "unconstrain"):
        raise TypeError(f"{type(target).__name__} has no parameters on an unconstrained scale, so no scores either")

    def sample(rng: np.random.Generator, n: int) -> Matrix:
        return np.asarray(target.unconstrain(posterior.sample(rng, n)), dtype=np.float64)

    # Draws are known by their family; their target may know the densities of other posteriors.
    if posterior.family == "draws" or not hasattr(target, "log_posterior"):
        return Published(target.dimension, sample, None)

    def value(theta: Matrix) -> Vector:
        return np.asarray(target.log_posterior(posterior, theta), dtype=np.float64)

    def gradient(theta: Matrix) -> Matrix:
        return np.asarray(target.posterior_gradient(posterior, theta), dtype=np.float64)

    return Published(target.dimension, sample, LogDensity(value, gradient))
