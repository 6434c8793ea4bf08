"""Gradients that JAX derives from densities (the extra `autodiff`), for classes of a user's own.

The class writes `log_likelihood` and `log_prior` with functions of jax.numpy; all else is as in `target`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.target import Parameters


class Derived:
    """A target with the gradients, scores and curvature of another one's densities, in float64."""

    weighs: ClassVar[bool] = True

    def __init__(self, target: Any) -> None:
        try:
            import jax
        except ImportError as error:
            rule = f"{type(target).__name__} has no gradient, and JAX, which would derive one, is not installed"
            raise ImportError(f"{rule}: install the extra `autodiff`") from error
        self.target, self._jax = target, jax

        def likelihood(theta: Any, rows: Any, weights: Any = None) -> Any:
            logs = target.log_likelihood(theta[None], rows)[0]
            return logs.sum() if weights is None else logs @ weights

        def prior(theta: Any) -> Any:
            return target.log_prior(theta[None])[0]

        many, one = (0, None, None), (None, 0)
        self._gradient = jax.jit(jax.vmap(jax.grad(likelihood), many))
        self._scores = jax.jit(jax.vmap(lambda theta, row: jax.grad(likelihood)(theta, row[None]), one))
        self._curvature = jax.jit(jax.hessian(likelihood))
        self._prior_gradient = jax.jit(jax.vmap(jax.grad(prior)))
        self._prior_curvature = jax.jit(jax.hessian(prior))

    def __getattr__(self, name: str) -> Any:
        """What else the other target has, such as draws from its prior."""
        if name == "target":  # while it is made
            raise AttributeError(name)
        return getattr(self.target, name)

    def trace(self) -> None:
        """Raises what JAX raises if it cannot follow the densities, say because they call numpy; computes nothing."""
        theta, rows = np.zeros((1, self.dimension)), np.zeros((1, self.columns))
        with self._jax.enable_x64(True):
            self._jax.eval_shape(self._gradient, theta, rows, None)
            self._jax.eval_shape(self._prior_gradient, theta)

    def _in_double(self, function: Callable[..., Any], *arguments: Any) -> NDArray[np.float64]:
        """JAX computes in float32 unless it is told otherwise, which is told here and nowhere else."""
        with self._jax.enable_x64(True):
            return np.array(function(*arguments), dtype=np.float64)

    @property
    def dimension(self) -> int:
        return int(self.target.dimension)

    @property
    def columns(self) -> int:
        return int(self.target.columns)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        shapes: Mapping[str, tuple[int, ...]] = self.target.shapes
        return shapes

    def rows(self, events: Matrix) -> Matrix:
        return np.asarray(self.target.rows(events), dtype=np.float64)

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        return self._in_double(self.target.log_likelihood, theta, rows)

    def log_prior(self, theta: Matrix) -> Vector:
        return self._in_double(self.target.log_prior, theta)

    def gradient(self, theta: Matrix, rows: Matrix, weights: Vector | None = None) -> Matrix:
        return self._in_double(self._gradient, theta, rows, weights)

    def scores(self, theta: Vector, rows: Matrix) -> Matrix:
        return self._in_double(self._scores, theta, rows)

    def curvature(self, theta: Vector, rows: Matrix, weights: Vector | None = None) -> Matrix:
        return -self._in_double(self._curvature, theta, rows, weights)

    def prior_gradient(self, theta: Matrix) -> Matrix:
        return self._in_double(self._prior_gradient, theta)

    def prior_curvature(self, theta: Vector) -> Matrix:
        return -self._in_double(self._prior_curvature, theta)

    def constrain(self, theta: Matrix) -> Parameters:
        return {name: np.asarray(value, dtype=np.float64) for name, value in self.target.constrain(theta).items()}

    def unconstrain(self, parameters: Mapping[str, NDArray[np.float64]]) -> Matrix:
        return np.asarray(self.target.unconstrain(parameters), dtype=np.float64)
