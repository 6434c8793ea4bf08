"""A target with its data: the log density of theta, prior^share times the likelihood of all rows.

Sums over rows go block by block (see `parts`), so a mapped file of rows is never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import parts


class Evaluated(Protocol):
    """A log density that a chain can be drawn from; one evaluation reads `n` events."""

    @property
    def n(self) -> int: ...

    def log_density(self, theta: Matrix) -> Vector: ...


class Sloped(Evaluated, Protocol):
    """One with gradients."""

    def gradient(self, theta: Matrix) -> Matrix: ...


@dataclass(frozen=True, eq=False)
class Density:
    """What can be asked depends on the members of the target, which is a `target.Target` at least.

    `share` is the power of the prior: 1, or 1/J for one of J subposteriors. With `weights` (n,) each event counts as
    often as its weight says, and the prior as before. A summary and conditional draws know nothing of weights.
    """

    target: Any
    rows: Matrix
    share: float = 1.0
    weights: Vector | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.weights is not None and self.weights.shape != (len(self.rows),):
            raise ValueError(f"weights have the shape {self.weights.shape}, not ({len(self.rows)},): one for each row")

    @property
    def n(self) -> int:
        """The number of events."""
        return len(self.rows)

    @property
    def dimension(self) -> int:
        return int(self.target.dimension)

    def blocks(self, k: int = 1) -> Iterator[Matrix]:
        """The rows in parts, small enough for arrays over k vectors theta."""
        return parts.of(self.rows, k)

    def _weighted(self, k: int = 1) -> Iterator[tuple[Matrix, Vector | None]]:
        """The blocks with the weights of their rows."""
        if self.weights is None:
            return ((part, None) for part in self.blocks(k))
        return ((self.rows[each], self.weights[each]) for each in parts.slices(self.rows, k))

    def log_density(self, theta: Matrix) -> Vector:
        """Of each theta (k, d): (k,). What is not a number is minus infinity: no step goes there."""
        with np.errstate(all="ignore"):
            total = self.share * self.target.log_prior(theta) + self.log_likelihood(theta)
        return np.where(np.isnan(total), -np.inf, total)

    def log_likelihood(self, theta: Matrix) -> Vector:
        """The log likelihood of all rows, (k,)."""
        total = np.zeros(len(theta))
        for part, weights in self._weighted(len(theta)):
            logs = self.target.log_likelihood(theta, part)
            total += logs.sum(axis=1) if weights is None else logs @ weights
        return total

    def gradient(self, theta: Matrix) -> Matrix:
        """The gradient of the log density at each theta (k, d): (k, d)."""
        with np.errstate(all="ignore"):
            total: Matrix = self.share * self.target.prior_gradient(theta) + self.likelihood_gradient(theta)
        return total

    def likelihood_gradient(self, theta: Matrix) -> Matrix:
        """The gradient of the log likelihood of all rows, (k, d)."""
        total = np.zeros(theta.shape)
        for part, weights in self._weighted(len(theta)):
            total += gradient(self.target, theta, part, weights)
        return total

    def curvature(self, theta: Vector) -> Matrix:
        """Minus the second derivatives of the log density at theta (d,): (d, d), symmetric."""
        with np.errstate(all="ignore"):
            total: Matrix = self.share * self.target.prior_curvature(theta)
            for part, weights in self._weighted():
                total = total + _curvature(self.target, theta, part, weights)
        return 0.5 * total + 0.5 * total.T

    @cached_property
    def summary(self) -> Any:
        """What a target's conditional draws need of all rows; computed once."""
        return self.target.summary(self.rows)


def gradient(target: Any, theta: Matrix, rows: Matrix, weights: Vector | None = None) -> Matrix:
    """The sum over rows of weight times the gradient at each theta (k, d): (k, d).

    By the gradient of each row if the target does not take weights.
    """
    if weights is None:
        return np.asarray(target.gradient(theta, rows), dtype=np.float64)
    if getattr(target, "weighs", False):
        return np.asarray(target.gradient(theta, rows, weights), dtype=np.float64)
    return np.array([weights @ scores(target, at, rows) for at in theta]).reshape(theta.shape)


def _curvature(target: Any, theta: Vector, rows: Matrix, weights: Vector | None) -> Matrix:
    if weights is None:
        return np.asarray(target.curvature(theta, rows), dtype=np.float64)
    if getattr(target, "weighs", False):
        return np.asarray(target.curvature(theta, rows, weights), dtype=np.float64)
    each = (w * target.curvature(theta, row[None]) for w, row in zip(weights, rows, strict=True))
    return np.asarray(sum(each, np.zeros((len(theta), len(theta)))), dtype=np.float64)


def scores(target: Any, theta: Vector, rows: Matrix) -> Matrix:
    """The gradient of each row at theta (d,): (n, d). One call for each row if the target does not know them."""
    if hasattr(target, "scores"):
        return np.asarray(target.scores(theta, rows), dtype=np.float64)
    return np.concatenate([np.empty((0, len(theta))), *(target.gradient(theta[None], row[None]) for row in rows)])
