"""Bernoulli events with a Beta prior: y ~ Bernoulli(p), p ~ Beta(alpha, beta)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import beta
from streaminfer.families.special import betaincinv
from streaminfer.models import pooled_counts, pooling, priors, totals
from streaminfer.models.events import Field
from streaminfer.models.model import Flags, Groups, Matrix, Moments, Predictions, Vector
from streaminfer.models.options import Option, Section, Text
from streaminfer.models.priors import POSITIVE


@dataclass(frozen=True)
class Bernoulli:
    """Statistics are (ones, zeros)."""

    kind: ClassVar[str] = "bernoulli"
    methods: ClassVar[tuple[str, ...]] = ("svb",)
    exactness: ClassVar[str] = "exact"
    needs_base: ClassVar[bool] = False
    options: ClassVar[Section] = Section(
        [
            Option("field", Text(), "the field that is 0 or 1"),
            Option(
                "prior",
                Section(
                    [
                        Option("alpha", POSITIVE, "prior count of ones", 1.0),
                        Option("beta", POSITIVE, "prior count of zeros", 1.0),
                    ]
                ),
                "Beta prior of p, the probability of a one",
                {},
            ),
        ]
    )

    field: str
    alpha: float = 1.0
    beta: float = 1.0

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        return cls(options["field"], **options["prior"])

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Field(self.field, "binary"),)

    @property
    def inputs(self) -> tuple[Field, ...]:
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return ()

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    @property
    def size(self) -> int:
        return 2

    def empty(self) -> Vector:
        return np.zeros(2)

    def statistics(self, events: Matrix, weights: Vector | None = None) -> Vector:
        ones = events[:, 0]
        if weights is None:
            return np.array([ones.sum(), len(events) - ones.sum()])
        return np.array([weights @ ones, weights @ (1 - ones)])

    def statistics_by(self, events: Matrix, groups: Groups, k: int, weights: Vector | None = None) -> Matrix:
        ones = events[:, 0]
        return totals.by_group([ones, 1 - ones], groups, k, weights)

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Matrix
    ) -> NDArray[np.float64]:
        p = parameters["p"]
        return (rng.random((len(p), len(events), 1)) < p[:, None, None]).astype(np.float64)

    def merge(self, a: Vector, b: Vector) -> Vector:
        return a + b

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        return totals.scale(statistics, weight)

    def proper(self, statistics: Matrix) -> Flags:
        return totals.proper(statistics, 2, totals=2)

    def total_weight(self, statistics: Matrix) -> Vector:
        return np.asarray(statistics.sum(axis=1))

    def log_evidences(self, statistics: Matrix) -> Vector:
        totals.require(self.proper(statistics))
        return pooled_counts.dirichlet_evidences(statistics, np.array([self.alpha, self.beta]))

    @property
    def prior_options(self) -> Mapping[str, Any]:
        return {"alpha": self.alpha, "beta": self.beta}

    def with_prior(self, prior: Mapping[str, Any]) -> Self:
        return self.build({"field": self.field, "prior": priors.checked(self.options, self.prior_options, prior)})

    def pooled(self, statistics: Matrix) -> Self:
        totals.require(self.proper(statistics))
        rows = statistics[statistics.any(axis=1)]
        if len(rows) < 2:
            return self
        alpha, beta = priors.positives(pooled_counts.dirichlet(rows, np.array([self.alpha, self.beta])))
        return pooling.better(self, self.with_prior({"alpha": alpha, "beta": beta}), rows)

    def posterior(self, statistics: Vector) -> BernoulliPosterior:
        ones, zeros = totals.checked(statistics, 2, totals=2)
        return BernoulliPosterior(self, self.alpha + ones, self.beta + zeros)


@dataclass(frozen=True, slots=True)
class BernoulliPosterior:
    """p ~ Beta(alpha, beta)."""

    family: ClassVar[str] = "beta"

    model: Bernoulli
    alpha: float
    beta: float

    @property
    def natural(self) -> Vector:
        return np.array([self.alpha, self.beta])

    def moments(self) -> dict[str, Moments]:
        """p: mean a/(a+b), variance a b / ((a+b)^2 (a+b+1))."""
        total = self.alpha + self.beta
        sd = math.sqrt(self.alpha / total * (self.beta / total) / (total + 1))
        return {"p": Moments(np.array(self.alpha / total), np.array(sd))}

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        return {"p": beta.sample(beta.Parameters(self.alpha, self.beta), rng, n)}

    def log_predictive(self, events: Matrix) -> Vector:
        """log a/(a+b) for a one, log b/(a+b) for a zero."""
        log_total = math.log(self.alpha + self.beta)
        return np.where(events[:, 0] == 1, math.log(self.alpha), math.log(self.beta)) - log_total

    def predict(self, inputs: Matrix, level: float) -> Predictions:
        """The probability of a one, a/(a+b), and the interval of p."""
        tails = np.array([0.5 * (1 - level), 0.5 * (1 + level)])
        lower, upper = betaincinv(self.alpha, self.beta, tails)
        found = {"probability": self.alpha / (self.alpha + self.beta), "lower": lower, "upper": upper}
        return {name: np.full(len(inputs), value) for name, value in found.items()}

    def log_evidence(self) -> float:
        """log B(posterior) - log B(prior)."""
        prior = beta.Parameters(self.model.alpha, self.model.beta)
        return beta.log_normaliser(beta.Parameters(self.alpha, self.beta)) - beta.log_normaliser(prior)
