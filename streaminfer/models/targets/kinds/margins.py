"""Targets of a 0/1 event: log p = f(row · theta), with a row of signed features and independent Gaussian priors.

The sign of the target is in the row, so one number, the margin, has all that an event says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.binary.gaussian_weights import Prior
from streaminfer.models.binary.local_steps.links import Link
from streaminfer.models.binary.regression import BinaryPosterior, BinaryRegression
from streaminfer.models.model import Matrix, Predictions, Vector
from streaminfer.models.targets import averages, parts
from streaminfer.models.targets.target import Ascent, Parameters


class Margins:
    """theta are the weights; what a link adds is in the classes of the links."""

    is_normalised: ClassVar[bool] = True
    weighs: ClassVar[bool] = True

    link: ClassVar[Link]
    link_code: ClassVar[int]
    """Which link it is for compiled loops: 0 is logistic, 1 is probit."""
    derivative_bounds: ClassVar[tuple[float | None, float | None, float | None]]

    def __init__(self, model: BinaryRegression) -> None:
        self.model = model

    @property
    def prior(self) -> Prior:
        return self.model.prior

    @property
    def dimension(self) -> int:
        return len(self.model.weights_mean)

    @property
    def columns(self) -> int:
        return self.dimension

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"weights": (self.dimension,)}

    @classmethod
    def of(cls, model: BinaryRegression) -> Self:
        return cls(model)

    def rows(self, events: Matrix) -> Matrix:
        """s z: the features, after a 1 if there is an intercept, times the target as a sign."""
        rows, signs = self.model.design(events)
        return signs[:, None] * rows

    def margins(self, theta: Matrix, rows: Matrix) -> Matrix:
        """(k, n)."""
        return theta @ rows.T

    def ascent(self, margins: NDArray[np.float64]) -> Ascent:
        """f and its derivatives at margins of any shape."""
        return Ascent(*type(self).link(margins))

    def slope(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """f' alone: what a step of a sampler needs."""
        return self.ascent(margins).slope

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        return self.ascent(self.margins(theta, rows)).log

    def gradient(self, theta: Matrix, rows: Matrix, weights: Vector | None = None) -> Matrix:
        slopes = self.slope(self.margins(theta, rows))
        return (slopes if weights is None else slopes * weights) @ rows

    def scores(self, theta: Vector, rows: Matrix) -> Matrix:
        return self.slope(rows @ theta)[:, None] * rows

    def curvature(self, theta: Vector, rows: Matrix, weights: Vector | None = None) -> Matrix:
        bend = self.ascent(rows @ theta).bend
        return parts.weighted_gram(rows, bend if weights is None else weights * bend)

    def log_prior(self, theta: Matrix) -> Vector:
        mean, precision = self.prior
        constant = 0.5 * float(np.log(precision).sum()) - 0.5 * len(mean) * math.log(2 * math.pi)
        return np.asarray(constant - 0.5 * ((theta - mean) ** 2 @ precision), dtype=np.float64)

    def prior_gradient(self, theta: Matrix) -> Matrix:
        return (self.prior.mean - theta) * self.prior.precision

    def log_posterior(self, posterior: BinaryPosterior, theta: Matrix) -> Vector:
        return posterior.weights.log_density(theta)

    def posterior_gradient(self, posterior: BinaryPosterior, theta: Matrix) -> Matrix:
        return posterior.weights.gradient(theta)

    def prior_curvature(self, theta: Vector) -> Matrix:  # noqa: ARG002 (the same everywhere)
        return np.diag(self.prior.precision)

    def sample_prior(self, rng: np.random.Generator, n: int) -> Matrix:
        mean, precision = self.prior
        return mean + rng.standard_normal((n, len(mean))) / np.sqrt(precision)

    def guess(self, rows: Matrix) -> Vector:  # noqa: ARG002 (a concave density has one mode)
        return self.prior.mean.copy()

    def constrain(self, theta: Matrix) -> Parameters:
        return {"weights": theta.copy()}

    def unconstrain(self, parameters: Mapping[str, NDArray[np.float64]]) -> Matrix:
        return parameters["weights"].copy()

    def predictions(self, parameters: Mapping[str, NDArray[np.float64]], inputs: Matrix, level: float) -> Predictions:
        """The probability of a one, the mean of f(w · z), and the interval of f(w · z)."""
        rows, _ = self.model.design(np.column_stack([inputs, np.zeros(len(inputs))]))
        found = averages.empty(("probability", "lower", "upper"), len(inputs))
        for each in parts.slices(rows, len(parameters["weights"])):
            chances = np.exp(self.ascent(parameters["weights"] @ rows[each].T).log)
            averages.put(found, each, averages.shares(chances, level))
        return found
