"""Linear regression with a Normal-inverse-Gamma prior: y ~ N(w · z, s2), z = the features, after a 1 if an intercept.

w | s2 ~ N(mean, s2 precision^-1), s2 ~ InvGamma(shape, rate) (Bishop 2006, exercise 3.12).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import matrices
from streaminfer.families import normal_inverse_gamma as nig
from streaminfer.models import pooling, priors
from streaminfer.models.conjugate import centred, pooled_regression, roots
from streaminfer.models.events import Field
from streaminfer.models.model import Flags, Groups, Matrix, Moments, Predictions, Vector
from streaminfer.models.options import Flag, Listing, OneOrMany, Option, OptionsError, Section, Text
from streaminfer.models.predictive import log_student_t, student_t
from streaminfer.models.priors import POSITIVE, REAL, spread

_PRIOR = Section(
    [
        Option("mean", OneOrMany(REAL), "prior mean of all weights, or a list with one for each, intercept first", 0.0),
        Option("precision", OneOrMany(POSITIVE), "prior precision in units of 1/s2, or a list, one per feature", 1.0),
        Option("intercept_precision", POSITIVE, "prior precision of the intercept in units of 1/s2", 1e-6),
        Option("shape", POSITIVE, "shape of the inverse Gamma prior of the noise variance", 1.0),
        Option("rate", POSITIVE, "rate of that prior; its mean is rate / (shape - 1)", 1.0),
    ]
)


@dataclass(frozen=True)
class LinearRegression:
    """Statistics are centred moments of (features, target) (see `centred`)."""

    kind: ClassVar[str] = "linear_regression"
    methods: ClassVar[tuple[str, ...]] = ("svb",)
    exactness: ClassVar[str] = "exact"
    needs_base: ClassVar[bool] = False
    options: ClassVar[Section] = Section(
        [
            Option("features", Listing(Text()), "the fields with the features"),
            Option("target", Text(), "the field to be explained"),
            Option("intercept", Flag(), "whether the first weight is an intercept", True),
            Option("prior", _PRIOR, "Normal-inverse-Gamma prior of weights and noise variance", {}),
        ]
    )

    features: tuple[str, ...]
    target: str
    intercept: bool
    weights_mean: tuple[float, ...]
    weights_precision: tuple[float, ...]
    shape: float
    rate: float

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        features, target, prior = options["features"], options["target"], options["prior"]
        if target in features:
            raise OptionsError("target", "must not be among the features", target)
        first = (prior["intercept_precision"],) if options["intercept"] else ()
        precision = first + spread(prior["precision"], len(features), "prior.precision", "feature")
        mean = spread(prior["mean"], len(precision), "prior.mean", "weight")
        return cls(features, target, options["intercept"], mean, precision, prior["shape"], prior["rate"])

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(name, "number") for name in (*self.features, self.target))

    @property
    def inputs(self) -> tuple[Field, ...]:
        return self.fields[:-1]

    @property
    def outputs(self) -> tuple[str, ...]:
        return ()

    @cached_property
    def prior(self) -> nig.Parameters:
        factor = np.diag(np.sqrt(self.weights_precision))
        return nig.Parameters(np.array(self.weights_mean), factor, self.shape, self.rate)

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        return {"weights": (*(("intercept",) if self.intercept else ()), *self.features)}

    @property
    def size(self) -> int:
        return centred.size(len(self.features) + 1)

    def empty(self) -> Vector:
        return centred.empty(len(self.features) + 1)

    def statistics(self, events: Matrix, weights: Vector | None = None) -> Vector:
        return centred.statistics(events, weights)

    def statistics_by(self, events: Matrix, groups: Groups, k: int, weights: Vector | None = None) -> Matrix:
        return centred.statistics_by(events, groups, k, weights)

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Matrix
    ) -> NDArray[np.float64]:
        weights, noise = parameters["weights"], np.sqrt(parameters["noise_variance"])
        rows = np.hstack([np.ones((len(events), int(self.intercept))), events[:, :-1]])
        found = np.repeat(events[None], len(weights), axis=0)
        found[:, :, -1] = weights @ rows.T + noise[:, None] * rng.standard_normal((len(weights), len(events)))
        return found

    def merge(self, a: Vector, b: Vector) -> Vector:
        return centred.merge(a, b, len(self.features) + 1)

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        return centred.scale(statistics, weight, len(self.features) + 1)

    def proper(self, statistics: Matrix) -> Flags:
        return centred.proper(statistics, len(self.features) + 1)

    def total_weight(self, statistics: Matrix) -> Vector:
        return statistics[:, 0]

    def log_evidences(self, statistics: Matrix) -> Vector:
        rows = centred.parts(statistics, len(self.features) + 1)
        found = [pooled_regression.log_evidences(part, self._diagonal_prior) for part in rows]
        return np.concatenate([np.zeros(0), *found])

    @property
    def prior_options(self) -> Mapping[str, Any]:
        first = {"intercept_precision": self.weights_precision[0]} if self.intercept else {}
        precision = list(self.weights_precision[-len(self.features) :])
        gamma = {"shape": self.shape, "rate": self.rate}
        return {"mean": list(self.weights_mean), "precision": precision, **first, **gamma}

    def with_prior(self, prior: Mapping[str, Any]) -> Self:
        given = priors.checked(self.options, self.prior_options, prior)
        data = {"features": self.features, "target": self.target, "intercept": self.intercept}
        return self.build({**data, "prior": given})

    def pooled(self, statistics: Matrix) -> Self:
        rows = statistics[statistics[:, 0] != 0]
        blocks = list(centred.parts(rows, len(self.features) + 1))
        if not pooling.enough(len(rows), float(rows[:, 0].sum()), 2 * len(self.weights_mean) + 2):
            return self
        found = pooled_regression.maximum(blocks, self._diagonal_prior, self._plain_prior(rows))
        precision = priors.positives(found.precision)
        shape, rate = priors.positives(np.array([found.shape, found.rate]))
        first = {"intercept_precision": precision.pop(0)} if self.intercept else {}
        weights = {"mean": priors.reals(found.mean), "precision": precision, **first}
        return pooling.better(self, self.with_prior({**weights, "shape": shape, "rate": rate}), rows)

    @property
    def _diagonal_prior(self) -> pooled_regression.Prior:
        precision = np.array(self.weights_precision)
        return pooled_regression.Prior(np.array(self.weights_mean), precision, self.shape, self.rate)

    def _plain_prior(self, rows: Matrix) -> pooled_regression.Prior:
        """At the posterior of all events together, and worth one of them."""
        everything = self.posterior(centred.total(rows, len(self.features) + 1))
        n, xbar, _, scatter, _ = everything.moments_absorbed
        mean, _, shape, rate = everything.parameters
        squares = scatter.diagonal()[:-1] / n
        constant = squares <= (centred.ROUNDED * xbar[:-1]) ** 2
        squares = np.where(constant | (not self.intercept), squares + xbar[:-1] ** 2, squares)
        precision = np.append([1.0] * self.intercept, np.where(squares > 0, squares, 1.0))
        return pooled_regression.Prior(mean, precision, 1.0, rate / shape)

    def posterior(self, statistics: Vector) -> LinearRegressionPosterior:
        """Least squares in square-root form: with an intercept eliminated, c = n p0 / (n + p0), else c = n, over rows

            data [F | g - F m], prior [sqrt(P) | 0], means sqrt(c) [xbar | ybar - m0 - m xbar],

        where [F g] is a root of the scatter; then w = m + coefficients, and the sum of squares left adds to the rate.
        """
        moments = centred.checked(statistics, len(self.features) + 1)
        n, xbar, ybar = moments.n, moments.mean[:-1], moments.mean[-1]
        m0, p0 = (self.weights_mean[0], self.weights_precision[0]) if self.intercept else (0.0, 0.0)
        mean, root_precision = self.prior.mean[-len(xbar) :], self.prior.factor[-len(xbar) :, -len(xbar) :]

        data = moments.root.copy()
        data[:, -1] -= data[:, :-1] @ mean
        rows = np.vstack([data, np.hstack([root_precision, np.zeros((len(xbar), 1))])])
        root_c = math.sqrt(p0 * (n / (n + p0)) if self.intercept else n)
        means = root_c * np.append(xbar, ybar - m0 - xbar @ mean)
        fit = roots.fit(rows, means)
        lower = roots.absorb(roots.triangle(rows[:, :-1]), means[:-1]).T
        weights = mean + fit.coefficients
        offset = fit.residual / root_c if root_c > 0 else float(ybar - m0 - xbar @ weights)
        if self.intercept:
            weights = np.append(m0 + n / (n + p0) * offset, weights)
            lower = _with_intercept(lower, n, p0, xbar)
        parameters = nig.Parameters(weights, lower, self.shape + 0.5 * n, self.rate + 0.5 * fit.root**2)
        return LinearRegressionPosterior(self, moments, parameters, offset)


def _with_intercept(lower: Matrix, n: float, p0: float, xbar: Vector) -> Matrix:
    """The factor of [[n + p0, n xbar'], [n xbar, X'X + P]] from that of its Schur complement."""
    corner = math.sqrt(n + p0)
    first = np.append(corner, n / corner * xbar)
    return np.column_stack([first, np.vstack([np.zeros(len(xbar)), lower])])


@dataclass(frozen=True, slots=True, eq=False)
class LinearRegressionPosterior:
    """NIG parameters; `offset` is ybar less the intercept's prior mean and what the features' weights explain of it."""

    family: ClassVar[str] = "normal-inverse-gamma"

    model: LinearRegression
    moments_absorbed: centred.Centred
    parameters: nig.Parameters
    offset: float

    @property
    def natural(self) -> Vector:
        """Sums of the prior's and the events' own terms: (P m + Z'y, P + Z'Z, shape + n/2, ... + y'y / 2)."""
        n, mean, _, scatter, _ = self.moments_absorbed
        raw = scatter + n * np.outer(mean, mean)
        if self.model.intercept:
            raw = np.block([[np.array([[n]]), n * mean[None, :]], [n * mean[:, None], raw]])
        increment: Vector = np.concatenate([raw[:-1, -1], raw[:-1, :-1].ravel(), [0.5 * n, 0.5 * raw[-1, -1]]])
        return nig.to_natural(self.model.prior) + increment

    def moments(self) -> dict[str, Moments]:
        """weights are a t with 2 shape degrees of freedom, noise_variance an inverse Gamma."""
        mean, factor, shape, rate = self.parameters
        variance = rate / (shape - 1) if shape > 1 else math.nan
        variance_sd = variance / math.sqrt(shape - 2) if shape > 2 else math.nan
        half = matrices.solve_lower(factor, np.eye(len(mean)))
        sd = math.sqrt(variance) * np.linalg.norm(half, axis=0)
        # The variance of an intercept may leave float64 while its sd does not.
        with np.errstate(over="ignore"):
            cov = variance * (half.T @ half)
        located = mean if shape > 0.5 else np.full(mean.shape, math.nan)
        return {
            "weights": Moments(located, sd, cov),
            "noise_variance": Moments(np.array(variance), np.array(variance_sd)),
        }

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        weights, variance = nig.sample(self.parameters, rng, n)
        return {"weights": weights, "noise_variance": variance}

    def log_predictive(self, events: Matrix) -> Vector:
        """t with 2 shape degrees of freedom, location w · z, squared scale rate / shape (1 + z' P^-1 z)."""
        _, _, shape, rate = self.parameters
        residuals, distances = self._residuals_and_distances(events)
        squared_scale = rate / shape * (1 + distances)
        return log_student_t((residuals / np.sqrt(squared_scale)) ** 2, 2 * shape, 1, np.log(squared_scale))

    def predict(self, inputs: Matrix, level: float) -> Predictions:
        """Mean, sd and interval of the target, noise included: the t of `log_predictive`."""
        _, _, shape, rate = self.parameters
        residuals, distances = self._residuals_and_distances(np.column_stack([inputs, np.zeros(len(inputs))]))
        return student_t(-residuals, np.sqrt(rate / shape * (1 + distances)), 2 * shape, level)

    def log_evidence(self) -> float:
        """A(posterior) - A(prior) - n/2 log 2 pi."""
        change = nig.log_normaliser(self.parameters) - nig.log_normaliser(self.model.prior)
        return change - 0.5 * self.moments_absorbed.n * math.log(2 * math.pi)

    def _residuals_and_distances(self, events: Matrix) -> tuple[Vector, Vector]:
        """y - w · z and z' P^-1 z of each event, both from its distance to the means, so that no digits cancel."""
        n, mean, rest, _, _ = self.moments_absorbed
        weights, factor, _, _ = self.parameters
        around = (events - mean) - rest
        if not self.model.intercept:
            distances = (matrices.solve_lower(factor, events[:, :-1].T) ** 2).sum(axis=0)
            return around[:, -1] - around[:, :-1] @ weights + self.offset, distances
        p0 = self.model.weights_precision[0]
        shrunk = p0 / (n + p0)
        half = matrices.solve_lower(factor[1:, 1:], (around[:, :-1] + shrunk * mean[:-1]).T)
        residuals = around[:, -1] - around[:, :-1] @ weights[1:] + shrunk * self.offset
        return residuals, np.einsum("ij,ij->j", half, half) + 1 / (n + p0)
