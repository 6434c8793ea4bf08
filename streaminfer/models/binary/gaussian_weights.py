"""Gaussian weights w of d coordinates: a prior with independent coordinates and natural parameters added to it.

Statistics are the change of the natural parameters: `full` ones are (linear, matrix), d + d*d numbers, the matrix row
by row, `diagonal` ones (linear, precisions), 2 d numbers. Events of a log-concave likelihood add no negative precision,
so what they add in any order and grouping is proper: positive semidefinite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np

from streaminfer.families import matrices
from streaminfer.models.conjugate import roots
from streaminfer.models.model import DomainError, Flags, Matrix, Moments, Vector

LARGEST: Final = 1e250
"""Beyond this the square of a statistic's root would leave float64. An event of features of 1e100 adds 1e200."""


class Prior(NamedTuple):
    """Mean and precision of each weight, (d,) both."""

    mean: Vector
    precision: Vector


@dataclass(frozen=True, slots=True, eq=False)
class FullWeights:
    """w ~ N(mean, (L L')^-1); `factor` is L, lower triangular.

    L comes from a root of the statistics with the root of the prior below it, so the prior is not lost in their
    rounding. If features are alike but for 1e-16 of their size, their weights are known to that rounding only.
    """

    family: ClassVar[str] = "gaussian"

    prior: Prior
    statistics: Vector
    mean: Vector
    factor: Matrix

    @staticmethod
    def size(d: int) -> int:
        """The length of the statistics of d weights."""
        return d + d * d

    @staticmethod
    def proper(statistics: Matrix, prior: Prior) -> Flags:
        """Which rows (k, size) `of` takes; one by one, as a model that needs a base has no posteriors of keys."""
        return np.array([_is_proper(FullWeights, prior, row) for row in statistics], dtype=np.bool_)

    @classmethod
    def of(cls, prior: Prior, statistics: Vector) -> Self:
        """mean = m + P^-1 (linear - S m), P = diag(precision) + S for a prior mean m.

        Raises DomainError if S is not positive semidefinite.
        """
        d = prior.mean.size
        _require_finite(statistics, cls.size(d))
        added = matrices.symmetric_part(statistics[d:], d)
        rows = np.vstack([roots.root(added), np.diag(np.sqrt(prior.precision))])
        factor = roots.triangle(rows).T
        with np.errstate(all="ignore"):
            shift = statistics[:d] - added @ prior.mean
            mean = prior.mean + matrices.solve_lower_transposed(factor, matrices.solve_lower(factor, shift))
        if not np.isfinite(mean).all():
            raise DomainError("the mean of the weights leaves float64")
        return cls(prior, statistics, mean, factor)

    @property
    def natural(self) -> Vector:
        """Prior and statistics, in the layout of the statistics, which is the family's."""
        mean, precision = self.prior
        return np.concatenate([precision * mean, np.diag(precision).ravel()]) + self.statistics

    def moments(self) -> Moments:
        half = matrices.solve_lower(self.factor, np.eye(self.mean.size))
        return Moments(self.mean, np.linalg.norm(half, axis=0), half.T @ half)

    def sample(self, rng: np.random.Generator, n: int) -> Matrix:
        """Draws (n, d)."""
        noise = rng.standard_normal((self.mean.size, n))
        return np.add(self.mean, matrices.solve_lower_transposed(self.factor, noise).T)

    def deviations(self, rows: Matrix) -> Vector:
        """The standard deviation of x · w for each row x of (n, d)."""
        return np.asarray(np.linalg.norm(matrices.solve_lower(self.factor, rows.T), axis=0), dtype=np.float64)

    def log_density(self, draws: Matrix) -> Vector:
        """log N(w; mean, (L L')^-1) of draws (n, d): (n,)."""
        white = (draws - self.mean) @ self.factor
        constant = matrices.log_determinant(self.factor) - self.mean.size * math.log(2 * math.pi)
        return np.asarray(0.5 * (constant - np.einsum("nd,nd->n", white, white)), dtype=np.float64)

    def gradient(self, draws: Matrix) -> Matrix:
        """Of `log_density`: P (mean - w), (n, d)."""
        return np.asarray((self.mean - draws) @ self.factor @ self.factor.T, dtype=np.float64)

    def divergence(self) -> float:
        """KL(these weights || prior) = (tr(P_0 P^-1) - d + log|P| - log|P_0| + (mean - m)' P_0 (mean - m)) / 2."""
        mean, precision = self.prior
        half = matrices.solve_lower(self.factor, np.diag(np.sqrt(precision)))
        log_dets = matrices.log_determinant(self.factor) - float(np.log(precision).sum())
        shift = float((precision * (self.mean - mean) ** 2).sum())
        return 0.5 * (float((half**2).sum()) - mean.size + log_dets + shift)


@dataclass(frozen=True, slots=True, eq=False)
class DiagonalWeights:
    """w_i ~ N(mean_i, 1 / precision_i), independent."""

    family: ClassVar[str] = "diagonal-gaussian"

    prior: Prior
    statistics: Vector
    mean: Vector
    precision: Vector

    @staticmethod
    def size(d: int) -> int:
        """The length of the statistics of d weights."""
        return 2 * d

    @staticmethod
    def proper(statistics: Matrix, prior: Prior) -> Flags:
        """Which rows (k, size) `of` takes."""
        finite = (np.abs(statistics) <= LARGEST).all(axis=1)
        return np.asarray(finite & (statistics[:, prior.mean.size :] >= 0).all(axis=1))

    @classmethod
    def of(cls, prior: Prior, statistics: Vector) -> Self:
        """mean = m + (linear - S m) / (precision + S) for a prior mean m; raises DomainError if an S is negative."""
        _require_finite(statistics, cls.size(prior.mean.size))
        linear, added = np.split(statistics, 2)
        if (added < 0).any():
            raise DomainError("a precision of the statistics is negative")
        precision = prior.precision + added
        mean = prior.mean + linear / precision - added / precision * prior.mean
        return cls(prior, statistics, mean, precision)

    @property
    def natural(self) -> Vector:
        """Prior and statistics, in the layout of the statistics, which is the family's."""
        mean, precision = self.prior
        return np.concatenate([precision * mean, precision]) + self.statistics

    def moments(self) -> Moments:
        return Moments(self.mean, self.precision**-0.5, np.diag(1 / self.precision))

    def sample(self, rng: np.random.Generator, n: int) -> Matrix:
        """Draws (n, d)."""
        return np.add(self.mean, rng.standard_normal((n, self.mean.size)) / np.sqrt(self.precision))

    def deviations(self, rows: Matrix) -> Vector:
        """The standard deviation of x · w for each row x of (n, d)."""
        return np.asarray(np.linalg.norm(rows / np.sqrt(self.precision), axis=1), dtype=np.float64)

    def log_density(self, draws: Matrix) -> Vector:
        """The sum of log N(w_i; mean_i, 1 / precision_i) of draws (n, d): (n,)."""
        constant = float(np.log(self.precision).sum()) - self.mean.size * math.log(2 * math.pi)
        return np.asarray(0.5 * (constant - (draws - self.mean) ** 2 @ self.precision), dtype=np.float64)

    def gradient(self, draws: Matrix) -> Matrix:
        """Of `log_density`, (n, d)."""
        return np.asarray((self.mean - draws) * self.precision, dtype=np.float64)

    def divergence(self) -> float:
        """KL(these weights || prior) = sum of (r - 1 - log r + p (mean - m)^2) / 2, r = p / precision."""
        mean, precision = self.prior
        ratio = precision / self.precision
        return 0.5 * float((ratio - 1 - np.log(ratio) + precision * (self.mean - mean) ** 2).sum())


FORMS: Final[Mapping[str, type[FullWeights] | type[DiagonalWeights]]] = {
    "full": FullWeights,
    "diagonal": DiagonalWeights,
}
"""By what a spec says of the covariance."""


def _is_proper(form: type[FullWeights], prior: Prior, statistics: Vector) -> bool:
    try:
        form.of(prior, statistics)
    except DomainError:
        return False
    return True


def _require_finite(statistics: Vector, size: int) -> None:
    if statistics.shape != (size,):
        raise DomainError(f"statistics have shape {statistics.shape}, not ({size},)")
    if not (np.abs(statistics) <= LARGEST).all():
        raise DomainError(f"a statistic is not a number of size at most {LARGEST:g}")
