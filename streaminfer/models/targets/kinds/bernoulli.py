"""Bernoulli events: theta = log p / (1 - p)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import betaln
from streaminfer.models.conjugate.bernoulli import Bernoulli as Model
from streaminfer.models.conjugate.bernoulli import BernoulliPosterior
from streaminfer.models.model import Matrix, Predictions, Vector
from streaminfer.models.targets import averages
from streaminfer.models.targets.kinds import simplex
from streaminfer.models.targets.kinds.single import Whole
from streaminfer.models.targets.target import Parameters


class Bernoulli(Whole):
    """p ~ Beta(alpha, beta) is, with the Jacobian p (1 - p), p^alpha (1 - p)^beta / B(alpha, beta) in theta."""

    dimension = 1
    columns = 1

    def __init__(self, model: Model) -> None:
        self.counts = np.array([model.alpha, model.beta])

    @classmethod
    def of(cls, model: Model) -> Self:
        return cls(model)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"p": ()}

    def rows(self, events: Matrix) -> Matrix:
        return events

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        return np.where(rows[:, 0] == 1, _log_sigmoid(theta), _log_sigmoid(-theta))

    def gradient(self, theta: Matrix, rows: Matrix, weights: Vector | None = None) -> Matrix:
        ones, zeros = self.summary(rows, weights)
        return np.asarray(ones - (ones + zeros) * _sigmoid(theta), dtype=np.float64)

    def scores(self, theta: Vector, rows: Matrix) -> Matrix:
        return rows - _sigmoid(theta)

    def curvature(self, theta: Vector, rows: Matrix, weights: Vector | None = None) -> Matrix:
        return np.asarray(self.summary(rows, weights).sum() * np.diag(_sigmoid(theta) * _sigmoid(-theta)))

    def log_prior(self, theta: Matrix) -> Vector:
        return _log_density(theta, self.counts)

    def log_posterior(self, posterior: BernoulliPosterior, theta: Matrix) -> Vector:
        return _log_density(theta, posterior.natural)

    def prior_gradient(self, theta: Matrix) -> Matrix:
        return _gradient(theta, self.counts)

    def posterior_gradient(self, posterior: BernoulliPosterior, theta: Matrix) -> Matrix:
        return _gradient(theta, posterior.natural)

    def prior_curvature(self, theta: Vector) -> Matrix:
        return np.asarray(self.counts.sum() * np.diag(_sigmoid(theta) * _sigmoid(-theta)), dtype=np.float64)

    def sample_prior(self, rng: np.random.Generator, n: int) -> Matrix:
        return simplex.sample(self.counts, rng, n)

    def guess(self, rows: Matrix) -> Vector:
        ones, zeros = self.summary(rows) + self.counts
        return np.array([np.log(ones) - np.log(zeros)])

    def summary(self, rows: Matrix, weights: Vector | None = None) -> Vector:
        """(ones, zeros)."""
        if weights is None:
            return np.array([rows.sum(), len(rows) - rows.sum()])
        return np.array([weights @ rows[:, 0], weights @ (1 - rows[:, 0])])

    def sample_posterior(self, summary: Vector, share: float, rng: np.random.Generator) -> Vector:
        return simplex.sample(share * self.counts + summary, rng, 1).ravel()

    def constrain(self, theta: Matrix) -> Parameters:
        return {"p": _sigmoid(theta[:, 0])}

    def unconstrain(self, parameters: Mapping[str, NDArray[np.float64]]) -> Matrix:
        p = np.clip(parameters["p"], simplex.SMALLEST, 1 - 2.0**-53)
        return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)[:, None]

    def predictions(self, parameters: Mapping[str, NDArray[np.float64]], inputs: Matrix, level: float) -> Predictions:
        """The probability of a one, and the interval of p."""
        found = averages.shares(parameters["p"], level)
        return {name: np.full(len(inputs), value) for name, value in found.items()}


def _log_density(theta: Matrix, counts: Vector) -> Vector:
    """log Beta(alpha, beta) with the Jacobian."""
    alpha, beta = counts
    logs = alpha * _log_sigmoid(theta) + beta * _log_sigmoid(-theta) - betaln(alpha, beta)
    return np.asarray(logs[:, 0], dtype=np.float64)


def _gradient(theta: Matrix, counts: Vector) -> Matrix:
    return np.asarray(counts[0] - counts.sum() * _sigmoid(theta), dtype=np.float64)


def _sigmoid(a: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(_log_sigmoid(a))


def _log_sigmoid(a: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.minimum(a, 0.0) - np.log1p(np.exp(-np.abs(a))), dtype=np.float64)
