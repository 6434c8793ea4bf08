"""A target with its data: the log density of theta, prior^share times the likelihood of all rows.

Sums over rows go block by block (see `parts`), so a mapped file of rows is never in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import parts


@dataclass(frozen=True, eq=False)
class Density:
    """What can be asked depends on the members of the target, which is a `target.Target` at least.

    `share` is the power of the prior: 1, or 1/J for one of J subposteriors.
    """

    target: Any
    rows: Matrix
    share: float = 1.0

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

    def log_density(self, theta: Matrix) -> Vector:
        """Of each theta (k, d): (k,). What is not a number is minus infinity: no step goes there."""
        with np.errstate(all="ignore"):
            total = self.share * self.target.log_prior(theta) + self.log_likelihood(theta)
        return np.where(np.isnan(total), -np.inf, total)

    def log_likelihood(self, theta: Matrix) -> Vector:
        """The log likelihood of all rows, (k,)."""
        total = np.zeros(len(theta))
        for part in self.blocks(len(theta)):
            total += self.target.log_likelihood(theta, part).sum(axis=1)
        return total

    def gradient(self, theta: Matrix) -> Matrix:
        """The gradient of the log density at each theta (k, d): (k, d)."""
        with np.errstate(all="ignore"):
            total: Matrix = self.share * self.target.prior_gradient(theta) + self.likelihood_gradient(theta)
        return total

    def likelihood_gradient(self, theta: Matrix) -> Matrix:
        """The gradient of the log likelihood of all rows, (k, d)."""
        total = np.zeros(theta.shape)
        for part in self.blocks(len(theta)):
            total += self.target.gradient(theta, part)
        return total

    def curvature(self, theta: Vector) -> Matrix:
        """Minus the second derivatives of the log density at theta (d,): (d, d), symmetric."""
        with np.errstate(all="ignore"):
            total: Matrix = self.share * self.target.prior_curvature(theta)
            for part in self.blocks():
                total = total + self.target.curvature(theta, part)
        return 0.5 * total + 0.5 * total.T

    @cached_property
    def summary(self) -> Any:
        """What a target's conditional draws need of all rows; computed once."""
        return self.target.summary(self.rows)


def scores(target: Any, theta: Vector, rows: Matrix) -> Matrix:
    """The gradient of each row at theta (d,): (n, d). One call for each row if the target does not know them."""
    if hasattr(target, "scores"):
        return np.asarray(target.scores(theta, rows), dtype=np.float64)
    return np.concatenate([np.empty((0, len(theta))), *(target.gradient(theta[None], row[None]) for row in rows)])
