"""Counts: theta = log rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import gammaln, xlogy
from streaminfer.models.conjugate.poisson import Poisson as Model
from streaminfer.models.conjugate.poisson import PoissonPosterior
from streaminfer.models.model import Matrix, Predictions, Vector
from streaminfer.models.targets import averages
from streaminfer.models.targets.kinds.simplex import SMALLEST
from streaminfer.models.targets.kinds.single import Whole
from streaminfer.models.targets.target import Parameters


class Poisson(Whole):
    """A row is (count, exposure). rate ~ Gamma(shape, rate) is exp(shape theta - rate e^theta) in theta."""

    dimension = 1
    columns = 2

    def __init__(self, model: Model) -> None:
        self.shape, self.rate, self.exposed = model.shape, model.rate, model.exposure is not None

    @classmethod
    def of(cls, model: Model) -> Self:
        return cls(model)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"rate": ()}

    def rows(self, events: Matrix) -> Matrix:
        return events if self.exposed else np.column_stack([events, np.ones(len(events))])

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        k, exposure = rows.T
        logs = k * theta - np.exp(theta) * exposure + (xlogy(k, exposure) - gammaln(k + 1))
        return np.asarray(logs, dtype=np.float64)

    def gradient(self, theta: Matrix, rows: Matrix, weights: Vector | None = None) -> Matrix:
        k, exposure = self.summary(rows, weights)
        return np.asarray(k - np.exp(theta) * exposure, dtype=np.float64)

    def scores(self, theta: Vector, rows: Matrix) -> Matrix:
        return rows[:, :1] - np.exp(theta) * rows[:, 1:]

    def curvature(self, theta: Vector, rows: Matrix, weights: Vector | None = None) -> Matrix:
        return np.diag(np.exp(theta) * self.summary(rows, weights)[1])

    def log_prior(self, theta: Matrix) -> Vector:
        return _log_density(theta, self.shape, self.rate)

    def log_posterior(self, posterior: PoissonPosterior, theta: Matrix) -> Vector:
        return _log_density(theta, posterior.shape, posterior.rate)

    def prior_gradient(self, theta: Matrix) -> Matrix:
        return self.shape - self.rate * np.exp(theta)

    def posterior_gradient(self, posterior: PoissonPosterior, theta: Matrix) -> Matrix:
        return posterior.shape - posterior.rate * np.exp(theta)

    def prior_curvature(self, theta: Vector) -> Matrix:
        return np.diag(self.rate * np.exp(theta))

    def sample_prior(self, rng: np.random.Generator, n: int) -> Matrix:
        return self._sample(self.shape, self.rate, rng, n)

    def guess(self, rows: Matrix) -> Vector:
        k, exposure = self.summary(rows)
        return np.array([math.log(self.shape + k) - math.log(self.rate + exposure)])

    def summary(self, rows: Matrix, weights: Vector | None = None) -> Vector:
        """(sum of counts, sum of exposures)."""
        return np.asarray(rows.sum(axis=0) if weights is None else weights @ rows, dtype=np.float64)

    def sample_posterior(self, summary: Vector, share: float, rng: np.random.Generator) -> Vector:
        k, exposure = summary
        drawn: Matrix = self._sample(share * self.shape + k, share * self.rate + exposure, rng, 1)
        return drawn.ravel()

    def _sample(self, shape: float, rate: float, rng: np.random.Generator, n: int) -> Matrix:
        """Logs of Gammas: Gamma(a) = Gamma(a + 1) U^(1/a), whose log is finite for every a."""
        logs = np.log(rng.standard_gamma(shape + 1, n)) - rng.standard_exponential(n) / shape
        return np.asarray(logs - math.log(rate), dtype=np.float64)[:, None]

    def constrain(self, theta: Matrix) -> Parameters:
        return {"rate": np.exp(theta[:, 0])}

    def unconstrain(self, parameters: Mapping[str, NDArray[np.float64]]) -> Matrix:
        return np.asarray(np.log(np.maximum(parameters["rate"], SMALLEST)), dtype=np.float64)[:, None]

    def predictions(self, parameters: Mapping[str, NDArray[np.float64]], inputs: Matrix, level: float) -> Predictions:
        """Mean, sd and interval of a new count with the row's exposure."""
        exposures = inputs[:, 0] if self.exposed else np.ones(len(inputs))
        return averages.poissons(exposures, parameters["rate"], level)


def _log_density(theta: Matrix, shape: float, rate: float) -> Vector:
    """log Gamma(shape, rate) with the Jacobian."""
    constant = shape * math.log(rate) - math.lgamma(shape)
    return np.asarray(constant + (shape * theta - rate * np.exp(theta))[:, 0], dtype=np.float64)
