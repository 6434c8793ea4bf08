"""A Gaussian target of independent coordinates whose gradient noise is known, and errors of moments of chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from streaminfer.models.targets.density import Density


class Gaussian:
    """log p(row | theta) = -l / (2 N) (theta - row)^2 for N rows, and a prior of precision `prior` around 0.

    The posterior has the precision l + prior, and the gradient of B rows has noise of variance l^2 var(rows) / B.
    """

    def __init__(self, d: int, n: int, likelihood: float, prior: float) -> None:
        self.dimension, self.columns, self.n = d, d, n
        self.likelihood, self.prior = likelihood, prior

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"theta": (self.dimension,)}

    def rows(self, events: np.ndarray) -> np.ndarray:
        return events

    def log_likelihood(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return -0.5 * self.likelihood / self.n * ((theta[:, None] - rows) ** 2).sum(axis=2)

    def gradient(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return -self.likelihood / self.n * (len(rows) * theta - rows.sum(axis=0))

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        return -0.5 * self.prior * (theta**2).sum(axis=1)

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return -self.prior * theta

    def curvature(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return len(rows) * self.likelihood / self.n * np.eye(self.dimension)

    def prior_curvature(self, theta: np.ndarray) -> np.ndarray:
        return self.prior * np.eye(self.dimension)

    def constrain(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        return {"theta": theta}

    def unconstrain(self, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
        return parameters["theta"]


D = 300
"""Drawn. They are independent but for minibatches of the same rows, whose values are in another order in each."""


def gaussian(
    noise: float, batch: int, d: int = D, n: int = 1000, precision: float = 1.0, prior: float = 0.2
) -> Density:
    """A posterior of this precision around 0 with gradient noise of variance `noise` for i.i.d. minibatches."""
    likelihood = precision - prior
    deviation = np.sqrt(noise * batch) / likelihood
    # The same values in another order in each coordinate: mean 0 and variance exactly `deviation` squared.
    rng = np.random.default_rng(11)
    values = np.linspace(-1, 1, n)
    values *= deviation / values.std()
    rows = np.stack([rng.permutation(values) for _ in range(d)], axis=1)
    return Density(Gaussian(d, n, likelihood, prior), rows)


class Moment(NamedTuple):
    """A mean and its Monte Carlo standard error."""

    value: float
    error: float

    def __repr__(self) -> str:
        return f"{self.value:.5f} ± {self.error:.5f}"


def moment(values: np.ndarray) -> Moment:
    """The mean of a chain of values (T, d) over time and coordinates; its error by the spread of coordinates."""
    each = values.mean(axis=0)
    return Moment(float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each))))


ROOM = 5.5
"""Monte Carlo standard errors that every check leaves: false alarms are below 4e-8 each."""


def agrees(found: Moment, expected: float, tolerance: float = 0.02) -> bool:
    """Whether it is right to within 5.5 standard errors, which must be less than the tolerance itself."""
    assert ROOM * found.error < tolerance * abs(expected), f"{found}: too few draws for a tolerance of {tolerance}"
    return abs(found.value - expected) < ROOM * found.error
