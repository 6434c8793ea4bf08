"""Categorical events: theta_k = log p_k / p_K, k < K (see `simplex`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.conjugate.categorical import Categorical as Model
from streaminfer.models.conjugate.categorical import CategoricalPosterior
from streaminfer.models.model import Matrix, Predictions, Vector
from streaminfer.models.targets import averages
from streaminfer.models.targets.kinds import simplex
from streaminfer.models.targets.kinds.single import Whole
from streaminfer.models.targets.target import Parameters


class Categorical(Whole):
    """A row is the number of its category."""

    columns = 1

    def __init__(self, model: Model) -> None:
        self.concentration = model.prior

    @classmethod
    def of(cls, model: Model) -> Self:
        return cls(model)

    @property
    def dimension(self) -> int:
        return len(self.concentration) - 1

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"p": (len(self.concentration),)}

    def rows(self, events: Matrix) -> Matrix:
        return events

    def counts(self, rows: Matrix, weights: Vector | None = None) -> Vector:
        """How often each category occurs, (K,)."""
        return np.bincount(rows[:, 0].astype(np.intp), weights, len(self.concentration)).astype(np.float64)

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        return np.asarray(simplex.logs(theta)[:, rows[:, 0].astype(np.intp)], dtype=np.float64)

    def gradient(self, theta: Matrix, rows: Matrix, weights: Vector | None = None) -> Matrix:
        return simplex.gradient(theta, self.counts(rows, weights))

    def scores(self, theta: Vector, rows: Matrix) -> Matrix:
        ones = np.eye(len(self.concentration))[rows[:, 0].astype(np.intp)]
        return simplex.gradient(theta[None], ones)

    def curvature(self, theta: Vector, rows: Matrix, weights: Vector | None = None) -> Matrix:
        return simplex.curvature(theta, len(rows) if weights is None else float(weights.sum()))

    def log_prior(self, theta: Matrix) -> Vector:
        return simplex.log_density(theta, self.concentration)

    def prior_gradient(self, theta: Matrix) -> Matrix:
        return simplex.gradient(theta, self.concentration)

    def log_posterior(self, posterior: CategoricalPosterior, theta: Matrix) -> Vector:
        return simplex.log_density(theta, posterior.concentration)

    def posterior_gradient(self, posterior: CategoricalPosterior, theta: Matrix) -> Matrix:
        return simplex.gradient(theta, posterior.concentration)

    def prior_curvature(self, theta: Vector) -> Matrix:
        return simplex.curvature(theta, float(self.concentration.sum()))

    def sample_prior(self, rng: np.random.Generator, n: int) -> Matrix:
        return simplex.sample(self.concentration, rng, n)

    def guess(self, rows: Matrix) -> Vector:
        return simplex.from_logs(np.log(self.concentration + self.counts(rows)))

    def summary(self, rows: Matrix) -> Vector:
        return self.counts(rows)

    def sample_posterior(self, summary: Vector, share: float, rng: np.random.Generator) -> Vector:
        return simplex.sample(share * self.concentration + summary, rng, 1).ravel()

    def constrain(self, theta: Matrix) -> Parameters:
        return {"p": np.exp(simplex.logs(theta))}

    def unconstrain(self, parameters: Mapping[str, NDArray[np.float64]]) -> Matrix:
        return simplex.from_probabilities(parameters["p"])

    def predictions(self, parameters: Mapping[str, NDArray[np.float64]], inputs: Matrix, level: float) -> Predictions:
        """The probability of each category, and the interval of its p."""
        found = averages.shares(parameters["p"], level)
        return {name: np.tile(values, (len(inputs), 1)) for name, values in found.items()}
