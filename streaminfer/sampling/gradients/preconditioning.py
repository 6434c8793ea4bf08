"""Preconditioners C = R R': in the coordinates R^-1 theta a step is as long in every direction.

`mode` is the inverse curvature at the mode, so that the posterior is about N(0, I) in these coordinates. `rms` is the
diagonal of Li et al. (2016), learned during warm-up and then frozen: so their term Gamma, the divergence of C, is 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices
from streaminfer.models.model import Matrix, Vector

DECAY: Final = 0.99
"""What is kept of the mean square of gradients with each step."""
LEAST: Final = 1e-5
"""Added to the root mean square, so that a coordinate without gradient does not fly off."""


class Preconditioner(NamedTuple):
    """C and its upper root R: (d, d) both, or their diagonals (d,). A lower root makes every Metropolis step wrong."""

    matrix: NDArray[np.float64]
    root: NDArray[np.float64]

    def times(self, vector: Vector) -> Vector:
        """C v."""
        return self.matrix * vector if self.matrix.ndim == 1 else self.matrix @ vector

    def spread(self, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """R z of each row z of (..., d): noise with covariance C."""
        return noise * self.root if self.root.ndim == 1 else noise @ self.root.T

    def whiten(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """R' g of each row g of (..., d): the gradient in the coordinates R^-1 theta."""
        return vectors * self.root if self.root.ndim == 1 else vectors @ self.root


def none(d: int, n: int = 1) -> Preconditioner:
    """C = I / n: variances of n events are about an n-th of those of one."""
    return Preconditioner(np.full(d, 1 / n), np.full(d, 1 / np.sqrt(n)))


def mode(curvature: Matrix) -> Preconditioner:
    """C = H^-1 for a curvature H = L L', R = L'^-1; raises LinAlgError if H is not positive definite."""
    units = 1 / np.sqrt(curvature.diagonal())
    factor = matrices.cholesky(units[:, None] * curvature * units)
    root = units[:, None] * matrices.solve_lower_transposed(factor, np.eye(len(units)))
    return Preconditioner(root @ root.T, root)


def covariance(matrix: Matrix) -> Preconditioner:
    """C (d, d) itself, in any units: its upper root is a lower one of the coordinates in the opposite order."""
    units = np.sqrt(matrix.diagonal())
    turned = (matrix / np.outer(units, units))[::-1, ::-1]
    return Preconditioner(matrix, units[:, None] * matrices.cholesky(np.ascontiguousarray(turned))[::-1, ::-1])


def rms(squares: Vector, n: int) -> Preconditioner:
    """C = 1 / (n (LEAST + sqrt(mean square))) of gradients of one event, of which there are n."""
    diagonal = 1 / (n * (LEAST + np.sqrt(squares)))
    return Preconditioner(diagonal, np.sqrt(diagonal))


def mean_square(squares: Vector, gradient: Vector, n: int) -> Vector:
    """The running mean of squares of gradient / n (d,), n events; what is not finite is left out."""
    one = gradient / n
    blended = np.where(squares > 0, DECAY * squares + (1 - DECAY) * one * one, one * one)
    return np.where(np.isfinite(blended), blended, squares)
