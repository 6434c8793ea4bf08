"""Logistic regression by the Jaakkola-Jordan bound, `local: bound`: surer than it may be, and here to be compared.

log p(y | w) >= log sigmoid(xi) + (y - 1/2) a - xi/2 - lambda(xi) (a^2 - xi^2), a = w · z,
lambda(xi) = tanh(xi / 2) / (4 xi), for every xi (Jaakkola & Jordan 2000; Bishop 2006, section 10.6). It is quadratic in
w, so an event adds (y - 1/2) z and 2 lambda z z' to the natural parameters, and is best at xi^2 = E[a^2].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from streaminfer.models.binary import logistic_normal
from streaminfer.models.binary.logistic_regression import LogisticRegression
from streaminfer.models.binary.regression import BinaryPosterior, BinaryRegression
from streaminfer.models.model import Absorbed, Matrix, Vector
from streaminfer.models.options import Section

_ITERATIONS: Final = 1000
_TOLERANCE: Final = 1e-6
"""A curvature that changes by less than this part of itself has settled."""
_FLATTEST: Final = 1e-300
"""A smaller curvature, of an event that hardly counts and is far from 0, would leave nothing to divide by."""
_PLAIN: Final = 1e12
"""Sums of squares up to this are solved with the digits that their squares have left."""


@dataclass(frozen=True)
class BoundLogisticRegression(BinaryRegression):
    """With a full covariance: a latent model, whose events' own variables are the xi."""

    kind: ClassVar[str] = LogisticRegression.kind
    methods: ClassVar[tuple[str, ...]] = LogisticRegression.methods
    options: ClassVar[Section] = LogisticRegression.options
    exactness: ClassVar[str] = "bound"
    most_passes: ClassVar[int] = _ITERATIONS

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> BinaryRegression:
        return LogisticRegression.build(options)

    def expected(self, q: BinaryPosterior, events: Matrix, weights: Vector | None = None) -> Vector:
        """(sum of (y - 1/2) z, sum of 2 lambda(xi) z z')."""
        rows, signs = self.design(events)
        times = np.ones(len(events)) if weights is None else weights
        curved = np.sqrt(times * curvature(_xi(q, rows)))[:, None] * rows
        return np.concatenate([(0.5 * times * signs) @ rows, (curved.T @ curved).ravel()])

    def elbo(self, q: BinaryPosterior, events: Matrix) -> float:
        """sum of log sigmoid(xi) + (y - 1/2) E[a] - xi/2, less KL(q || prior); xi^2 = E[a^2] cancels the square."""
        rows, signs = self.design(events)
        xi = _xi(q, rows)
        bounds = -np.logaddexp(0, -xi) + 0.5 * signs * (rows @ q.weights.mean) - 0.5 * xi
        return float(bounds.sum()) - q.weights.divergence()

    def log_probability(self, means: Vector, deviations: Vector) -> Vector:
        return logistic_normal.log_mean_sigmoid(means, deviations)


@dataclass(frozen=True)
class DiagonalBoundLogisticRegression(BoundLogisticRegression):
    """With independent weights: the factorised Gaussian of the largest bound, and never a d x d matrix that is kept.

    Given the xi that Gaussian has the joint optimum as its mean and the diagonal of the joint precision. What an event
    adds to one weight depends on the means of all others, so the mean is solved for with the base at hand, in `absorb`.
    """

    methods: ClassVar[tuple[str, ...]] = ("svb",)

    def absorb(self, base: BinaryPosterior, events: Matrix, weights: Vector | None = None) -> Absorbed:
        """The change of (precision * mean, precision) once the xi and the weights agree."""
        return self.ascended(base, events, weights, _ITERATIONS)

    def ascended(self, base: BinaryPosterior, events: Matrix, weights: Vector | None, iterations: int) -> Absorbed:
        """`absorb` after at most N rounds. No round lets the bound fall: each half of one is a maximum."""
        taken = np.ones(len(events), dtype=bool) if weights is None else weights > 0
        rows, signs = self.design(events[taken])
        times = np.ones(len(rows)) if weights is None else weights[taken]
        start, precision, residuals = base.weights.mean, base.natural[self.size // 2 :], 0.5 * times * signs
        mean, added, curves, settled = start, np.zeros(start.size), np.zeros(len(rows)), False
        for _ in range(iterations):
            spread = np.linalg.norm(rows / np.sqrt(precision + added), axis=1)
            before, curves = curves, np.maximum(times * curvature(np.hypot(rows @ mean, spread)), _FLATTEST)
            mean, added = _solved(start, precision, rows, residuals, curves), curves @ rows**2
            settled = bool((np.abs(curves - before) <= _TOLERANCE * curves).all())
            if settled:
                break
        return Absorbed(np.concatenate([precision * (mean - start) + added * mean, added]), settled)

    def expected(self, q: BinaryPosterior, events: Matrix, weights: Vector | None = None) -> Vector:
        """What the events add if q is the optimum: the natural gradient of their bound, and no ascent by itself."""
        rows, signs = self.design(events)
        times = np.ones(len(events)) if weights is None else weights
        curves = times * curvature(_xi(q, rows))
        added = curves @ rows**2
        gradient = (0.5 * times * signs - curves * (rows @ q.weights.mean)) @ rows
        return np.concatenate([gradient + added * q.weights.mean, added])


def curvature(xi: Vector) -> Vector:
    """2 lambda(xi) = tanh(xi / 2) / (2 xi), which is 1/4 to the last digit near 0."""
    curves: Vector = np.divide(np.tanh(0.5 * xi), 2 * xi, out=np.full(xi.shape, 0.25), where=xi > 1e-8)
    return curves


def _xi(q: BinaryPosterior, rows: Matrix) -> Vector:
    """sqrt(E[a^2]): its mean and its deviation."""
    return np.asarray(np.hypot(rows @ q.weights.mean, q.weights.deviations(rows)), dtype=np.float64)


def _solved(mean: Vector, precision: Vector, rows: Matrix, residuals: Vector, curves: Vector) -> Vector:
    """The mean of exp(residuals · a - curves · a^2 / 2) N(w; mean, 1 / precision), a = rows @ w, all curves above 0.

    In units of the base it is a ridge regression B u = r, solved by the smaller of B B' and B'B. If their squares would
    swallow the base, it is solved by the singular values of B.
    """
    deviations = 1 / np.sqrt(precision)
    root_curves = np.sqrt(curves)
    B = root_curves[:, None] * rows * deviations
    r = residuals / root_curves - root_curves * (rows @ mean)
    n, d = B.shape
    if (B**2).sum() > _PLAIN:
        left, singular, right = np.linalg.svd(B, full_matrices=False)
        u = right.T @ ((left.T @ r) / (singular + 1 / np.maximum(singular, 1e-200)))
    elif n < d:
        u = B.T @ np.linalg.solve(np.eye(n) + B @ B.T, r)
    else:
        u = np.linalg.solve(np.eye(d) + B.T @ B, B.T @ r)
    return np.asarray(mean + deviations * u, dtype=np.float64)
