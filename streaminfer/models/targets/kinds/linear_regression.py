"""Linear regression: theta = (weights, log s2), s2 the variance of the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices
from streaminfer.families import normal_inverse_gamma as nig
from streaminfer.models.conjugate.linear_regression import LinearRegression as Model
from streaminfer.models.conjugate.linear_regression import LinearRegressionPosterior
from streaminfer.models.model import Matrix, Predictions, Vector
from streaminfer.models.targets import averages, parts
from streaminfer.models.targets.kinds.single import Whole
from streaminfer.models.targets.target import Parameters

Array = NDArray[np.float64]


class Statistics(NamedTuple):
    """X'X, weights near the least squares, X'r and r'r of their residuals r, and the number of rows."""

    gram: Matrix
    weights: Vector
    linear: Vector
    squares: float
    n: int


class LinearRegression(Whole):
    """A row is (features, after a 1 if there is an intercept; target).

    Up to constants the prior is exp(-(a + d/2) t - (b + (w - m)' P (w - m) / 2) e^-t) with t = log s2.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.mean = np.array(model.weights_mean)
        self.precision = np.array(model.weights_precision)
        self.shape, self.rate = model.shape, model.rate

    @classmethod
    def of(cls, model: Model) -> Self:
        return cls(model)

    @property
    def dimension(self) -> int:
        return len(self.mean) + 1

    @property
    def columns(self) -> int:
        return len(self.mean) + 1

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"weights": (len(self.mean),), "noise_variance": ()}

    def rows(self, events: Matrix) -> Matrix:
        return np.hstack([np.ones((len(events), 1)), events]) if self.model.intercept else events

    def residuals(self, weights: Matrix, rows: Matrix) -> Matrix:
        """(k, n)."""
        return rows[:, -1] - weights @ rows[:, :-1].T

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        t = theta[:, -1:]
        away = self.residuals(theta[:, :-1], rows)
        return np.asarray(-0.5 * (math.log(2 * math.pi) + t + away * away * np.exp(-t)), dtype=np.float64)

    def gradient(self, theta: Matrix, rows: Matrix, weights: Vector | None = None) -> Matrix:
        inverse = np.exp(-theta[:, -1:])
        away = self.residuals(theta[:, :-1], rows)
        weighted = away if weights is None else away * weights
        n = len(rows) if weights is None else weights.sum()
        squares = np.einsum("kn,kn->k", away, weighted)[:, None]
        return np.hstack([inverse * (weighted @ rows[:, :-1]), 0.5 * (inverse * squares - n)])

    def scores(self, theta: Vector, rows: Matrix) -> Matrix:
        inverse = math.exp(-theta[-1])
        away = self.residuals(theta[None, :-1], rows)[0]
        return np.column_stack([inverse * away[:, None] * rows[:, :-1], 0.5 * (inverse * away * away - 1)])

    def curvature(self, theta: Vector, rows: Matrix, weights: Vector | None = None) -> Matrix:
        away, features = self.residuals(theta[None, :-1], rows)[0], rows[:, :-1]
        gram = features.T @ features if weights is None else parts.weighted_gram(features, weights)
        weighted = away if weights is None else away * weights
        return _bordered(gram, weighted @ features, float(away @ weighted), theta[-1])

    def log_prior(self, theta: Matrix) -> Vector:
        return _log_density(theta, self.model.prior)

    def log_posterior(self, posterior: LinearRegressionPosterior, theta: Matrix) -> Vector:
        return _log_density(theta, posterior.parameters)

    def prior_gradient(self, theta: Matrix) -> Matrix:
        return _gradient(theta, self.model.prior)

    def posterior_gradient(self, posterior: LinearRegressionPosterior, theta: Matrix) -> Matrix:
        return _gradient(theta, posterior.parameters)

    def prior_curvature(self, theta: Vector) -> Matrix:
        away = self.mean - theta[:-1]
        quadratic = float(away**2 @ self.precision) + 2 * self.rate
        return _bordered(np.diag(self.precision), away * self.precision, quadratic, theta[-1])

    def is_proper_prior(self, share: float) -> bool:
        """Whether prior^share is a density by itself: share (a + d/2) > d/2."""
        return share * (self.shape + 0.5 * len(self.mean)) > 0.5 * len(self.mean)

    def sample_prior(self, rng: np.random.Generator, n: int) -> Matrix:
        weights, variance = nig.sample(self.model.prior, rng, n)
        return np.column_stack([weights, np.log(variance)])

    def guess(self, rows: Matrix) -> Vector:
        """The mode: that of the Normal-inverse-Gamma posterior, with the Jacobian."""
        posterior = self._posterior(self.summary(rows), 1.0)
        return np.append(posterior.mean, math.log(posterior.rate) - math.log(posterior.shape + 0.5 * len(self.mean)))

    def summary(self, rows: Matrix) -> Statistics:
        """Residuals are taken in a second pass, so that a target far from 0 loses no digits."""
        d = len(self.mean)
        gram, moment, weights = np.zeros((d, d)), np.zeros(d), self.mean
        for part in parts.of(rows):
            gram += part[:, :-1].T @ part[:, :-1]
            moment += part[:, -1] @ part[:, :-1]
        if len(rows):
            units = 1 / np.sqrt(np.where(gram.diagonal() > 0, gram.diagonal(), 1.0))
            weights = units * np.linalg.lstsq(units[:, None] * gram * units, units * moment)[0]
        linear, squares = np.zeros(d), 0.0
        for part in parts.of(rows):
            away = self.residuals(weights[None], part)[0]
            linear += away @ part[:, :-1]
            squares += float(away @ away)
        return Statistics(gram, weights, linear, squares, len(rows))

    def sample_posterior(self, summary: Statistics, share: float, rng: np.random.Generator) -> Vector:
        weights, variance = nig.sample(self._posterior(summary, share), rng, 1)
        return np.append(weights[0], math.log(variance[0]))

    def _posterior(self, of: Statistics, share: float) -> nig.Parameters:
        """prior^share in theta is again Normal-inverse-Gamma: precision share P, shape share (a + d/2) - d/2.

        Its shape may be below 0; what the rows add must make up for it.
        """
        d, prior = len(self.mean), share * self.precision
        factor = matrices.cholesky(np.diag(prior) + of.gram)
        shift = of.gram @ (of.weights - self.mean) + of.linear
        away = matrices.solve_lower_transposed(factor, matrices.solve_lower(factor, shift))
        mean = self.mean + away
        left = of.weights - mean
        squares = of.squares + float(left @ (of.gram @ left + 2 * of.linear)) + float(away**2 @ prior)
        shape = share * (self.shape + 0.5 * d) - 0.5 * d + 0.5 * of.n
        if shape <= 0:
            raise ValueError(f"prior^{share:g} and {of.n} events give no proper posterior: it needs more events")
        return nig.Parameters(mean, factor, shape, share * self.rate + 0.5 * squares)

    def constrain(self, theta: Matrix) -> Parameters:
        return {"weights": theta[:, :-1].copy(), "noise_variance": np.exp(theta[:, -1])}

    def unconstrain(self, parameters: Mapping[str, NDArray[np.float64]]) -> Matrix:
        return np.column_stack([parameters["weights"], np.log(parameters["noise_variance"])])

    def predictions(self, parameters: Mapping[str, NDArray[np.float64]], inputs: Matrix, level: float) -> Predictions:
        """Mean, sd and interval of the target, noise included."""
        features, noise = self.rows(inputs), np.sqrt(parameters["noise_variance"])
        found = averages.empty(("mean", "sd", "lower", "upper"), len(inputs))
        for each in parts.slices(features, len(noise)):
            means = features[each] @ parameters["weights"].T
            averages.put(found, each, averages.normals(means, np.broadcast_to(noise, means.shape), level))
        return found


def _log_density(theta: Matrix, of: nig.Parameters) -> Vector:
    """log NIG with the Jacobian: -(a + d/2) t - (b + |L'(w - m)|^2 / 2) e^-t - A."""
    t, white = theta[:, -1], (theta[:, :-1] - of.mean) @ of.factor
    falling = (of.rate + 0.5 * np.einsum("kd,kd->k", white, white)) * np.exp(-t)
    return np.asarray(-nig.log_normaliser(of) - (of.shape + 0.5 * len(of.mean)) * t - falling, dtype=np.float64)


def _gradient(theta: Matrix, of: nig.Parameters) -> Matrix:
    inverse, white = np.exp(-theta[:, -1:]), (of.mean - theta[:, :-1]) @ of.factor
    squares = np.einsum("kd,kd->k", white, white)[:, None]
    down = (of.rate + 0.5 * squares) * inverse - (of.shape + 0.5 * len(of.mean))
    return np.hstack([inverse * (white @ of.factor.T), down])


def _bordered(gram: Matrix, linear: Vector, quadratic: float, log_variance: Any) -> Matrix:
    """Minus the second derivatives of -e^-t q(w) / 2 by (w, t), where q has second derivatives 2 gram."""
    inverse = math.exp(-log_variance)
    return inverse * np.block([[gram, linear[:, None]], [linear[None, :], np.array([[0.5 * quadratic]])]])
