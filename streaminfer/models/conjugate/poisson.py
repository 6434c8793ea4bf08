"""Counts with a Gamma prior: k ~ Poisson(exposure * rate), rate ~ Gamma(shape, rate)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import gamma
from streaminfer.families.special import gammaln, xlogy
from streaminfer.models import pooled_counts, pooling, priors, totals
from streaminfer.models.events import Field
from streaminfer.models.model import Flags, Groups, Matrix, Moments, Predictions, Vector
from streaminfer.models.options import Option, OptionsError, Section, Text
from streaminfer.models.predictive import log_negative_binomial, negative_binomial
from streaminfer.models.priors import POSITIVE


@dataclass(frozen=True)
class Poisson:
    """Statistics are (sum k, sum exposure, sum of log exposure^k / k!); the last only the evidence needs."""

    kind: ClassVar[str] = "poisson"
    methods: ClassVar[tuple[str, ...]] = ("svb",)
    exactness: ClassVar[str] = "exact"
    needs_base: ClassVar[bool] = False
    options: ClassVar[Section] = Section(
        [
            Option("field", Text(), "the field that holds a count"),
            Option("exposure", Text(), "the field with the exposure of the count; without it 1 each", None),
            Option(
                "prior",
                Section(
                    [
                        Option("shape", POSITIVE, "shape of the prior", 1.0),
                        Option("rate", POSITIVE, "rate (inverse scale) of the prior; its mean is shape / rate", 1.0),
                    ]
                ),
                "Gamma prior of the rate, the expected count of one unit of exposure",
                {},
            ),
        ]
    )

    field: str
    exposure: str | None = None
    shape: float = 1.0
    rate: float = 1.0

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        if options["exposure"] == options["field"]:
            raise OptionsError("exposure", "must be another field than the count", options["exposure"])
        return cls(options["field"], options["exposure"], **options["prior"])

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        count = Field(self.field, "count")
        return (count,) if self.exposure is None else (count, Field(self.exposure, "positive"))

    @property
    def inputs(self) -> tuple[Field, ...]:
        return self.fields[1:]

    @property
    def outputs(self) -> tuple[str, ...]:
        return ()

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    @property
    def size(self) -> int:
        return 3

    def empty(self) -> Vector:
        return np.zeros(3)

    def statistics(self, events: Matrix, weights: Vector | None = None) -> Vector:
        terms = self._terms(events)
        return np.array([term.sum() if weights is None else weights @ term for term in terms])

    def statistics_by(self, events: Matrix, groups: Groups, k: int, weights: Vector | None = None) -> Matrix:
        return totals.by_group(self._terms(events), groups, k, weights)

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Matrix
    ) -> NDArray[np.float64]:
        _, exposures = self.split(events)
        found = np.repeat(events[None], len(parameters["rate"]), axis=0)
        found[:, :, 0] = rng.poisson(parameters["rate"][:, None] * exposures)
        return found

    def merge(self, a: Vector, b: Vector) -> Vector:
        return a + b

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        return totals.scale(statistics, weight)

    def proper(self, statistics: Matrix) -> Flags:
        return totals.proper(statistics, 3, totals=2)

    def total_weight(self, statistics: Matrix) -> Vector:
        return statistics[:, 1] if self.exposure is None else np.zeros(len(statistics))

    def log_evidences(self, statistics: Matrix) -> Vector:
        totals.require(self.proper(statistics))
        return pooled_counts.gamma_evidences(statistics, self.shape, self.rate)

    @property
    def prior_options(self) -> Mapping[str, Any]:
        return {"shape": self.shape, "rate": self.rate}

    def with_prior(self, prior: Mapping[str, Any]) -> Self:
        given = priors.checked(self.options, self.prior_options, prior)
        return self.build({"field": self.field, "exposure": self.exposure, "prior": given})

    def pooled(self, statistics: Matrix) -> Self:
        totals.require(self.proper(statistics))
        rows = statistics[statistics[:, 1] > 0]
        if len(rows) < 2:
            return self
        shape, rate = priors.positives(np.array(pooled_counts.gamma(rows, self.shape, self.rate)))
        return pooling.better(self, self.with_prior({"shape": shape, "rate": rate}), rows)

    def posterior(self, statistics: Vector) -> PoissonPosterior:
        count, exposure, base = totals.checked(statistics, 3, totals=2)
        return PoissonPosterior(self, self.shape + count, self.rate + exposure, base)

    def split(self, events: Matrix) -> tuple[Vector, Vector]:
        """Counts (n,) and exposures (n,)."""
        return events[:, 0], np.ones(len(events)) if self.exposure is None else events[:, 1]

    def _terms(self, events: Matrix) -> list[Vector]:
        """What an event adds to each statistic, (n,) each."""
        counts, exposures = self.split(events)
        return [counts, exposures, xlogy(counts, exposures) - gammaln(counts + 1)]


@dataclass(frozen=True, slots=True)
class PoissonPosterior:
    """rate ~ Gamma(shape, rate); `base` is the log base measure of the events."""

    family: ClassVar[str] = "gamma"

    model: Poisson
    shape: float
    rate: float
    base: float

    @property
    def natural(self) -> Vector:
        return np.array([self.shape, self.rate])

    def moments(self) -> dict[str, Moments]:
        """rate: mean shape / rate, sd sqrt(shape) / rate."""
        return {"rate": Moments(np.array(self.shape / self.rate), np.array(math.sqrt(self.shape) / self.rate))}

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        return {"rate": gamma.sample(gamma.Parameters(self.shape, self.rate), rng, n)}

    def log_predictive(self, events: Matrix) -> Vector:
        """Negative binomial with the event's exposure."""
        return log_negative_binomial(*self.model.split(events), self.shape, self.rate)

    def predict(self, inputs: Matrix, level: float) -> Predictions:
        """Mean, sd and interval of a new count: negative binomial with the row's exposure."""
        exposures = np.ones(len(inputs)) if self.model.exposure is None else inputs[:, 0]
        return negative_binomial(exposures, self.shape, self.rate, level)

    def log_evidence(self) -> float:
        """A(posterior) - A(prior) + log base measure."""
        prior = gamma.Parameters(self.model.shape, self.model.rate)
        return gamma.log_normaliser(gamma.Parameters(self.shape, self.rate)) - gamma.log_normaliser(prior) + self.base
