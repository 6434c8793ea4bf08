"""Waiting times with a Gamma prior: t ~ Exponential(rate), rate ~ Gamma(shape, rate)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import gamma
from streaminfer.models import pooled_counts, pooling, priors, totals
from streaminfer.models.events import Field
from streaminfer.models.model import Flags, Groups, Matrix, Moments, Predictions, Vector
from streaminfer.models.options import Option, Section, Text


@dataclass(frozen=True)
class WaitingTime:
    """Statistics are (number of events, sum of t); the posterior is Gamma(shape + number, rate + sum)."""

    kind: ClassVar[str] = "waiting_time"
    methods: ClassVar[tuple[str, ...]] = ("svb",)
    exactness: ClassVar[str] = "exact"
    needs_base: ClassVar[bool] = False
    options: ClassVar[Section] = Section(
        [
            Option("field", Text(), "the field that holds a waiting time"),
            Option(
                "prior",
                Section(
                    [
                        Option("shape", priors.POSITIVE, "how many events the prior counts as", 1.0),
                        Option("rate", priors.POSITIVE, "the total waiting time of these events", 1.0),
                    ]
                ),
                "Gamma prior of the rate: the expected number of events in a unit of time",
                {},
            ),
        ]
    )

    field: str
    shape: float = 1.0
    rate: float = 1.0

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        return cls(options["field"], **options["prior"])

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field(self.field, "positive"),)

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
        times = events[:, 0]
        counted = np.ones(len(times)) if weights is None else weights
        return np.array([counted.sum(), counted @ times])

    def statistics_by(self, events: Matrix, groups: Groups, k: int, weights: Vector | None = None) -> Matrix:
        return totals.by_group([np.ones(len(events)), events[:, 0]], groups, k, weights)

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Matrix
    ) -> NDArray[np.float64]:
        rates = parameters["rate"]
        return rng.standard_exponential((len(rates), len(events), 1)) / rates[:, None, None]

    def merge(self, a: Vector, b: Vector) -> Vector:
        return a + b

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        return totals.scale(statistics, weight)

    def proper(self, statistics: Matrix) -> Flags:
        return totals.proper(statistics, 2, totals=2)

    def posterior(self, statistics: Vector) -> WaitingTimePosterior:
        number, time = totals.checked(statistics, 2, totals=2)
        return WaitingTimePosterior(self, self.shape + number, self.rate + time)

    def log_evidences(self, statistics: Matrix) -> Vector:
        totals.require(self.proper(statistics))
        return pooled_counts.gamma_evidences(_counted(statistics), self.shape, self.rate)

    @property
    def prior_options(self) -> Mapping[str, Any]:
        return {"shape": self.shape, "rate": self.rate}

    def with_prior(self, prior: Mapping[str, Any]) -> Self:
        return self.build({"field": self.field, "prior": priors.checked(self.options, self.prior_options, prior)})

    def pooled(self, statistics: Matrix) -> Self:
        totals.require(self.proper(statistics))
        rows = statistics[statistics[:, 0] > 0]
        if len(rows) < 2:
            return self
        found = np.array(pooled_counts.gamma(_counted(rows), self.shape, self.rate))
        shape, rate = priors.positives(found)
        return pooling.better(self, self.with_prior({"shape": shape, "rate": rate}), rows)


@dataclass(frozen=True, slots=True)
class WaitingTimePosterior:
    """rate ~ Gamma(shape, rate)."""

    family: ClassVar[str] = "gamma"

    model: WaitingTime
    shape: float
    rate: float

    @property
    def natural(self) -> Vector:
        return np.array([self.shape, self.rate])

    def moments(self) -> dict[str, Moments]:
        """rate: mean shape / rate, sd sqrt(shape) / rate."""
        return {"rate": Moments(np.array(self.shape / self.rate), np.array(math.sqrt(self.shape) / self.rate))}

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        return {"rate": gamma.sample(gamma.Parameters(self.shape, self.rate), rng, n)}

    def log_predictive(self, events: Matrix) -> Vector:
        """Lomax: log shape - log(rate + t) - shape log(1 + t / rate)."""
        times = events[:, 0]
        return math.log(self.shape) - np.log(self.rate + times) - self.shape * np.log1p(times / self.rate)

    def predict(self, inputs: Matrix, level: float) -> Predictions:
        """The next waiting time: mean rate / (shape - 1), quantiles rate ((1 - p)^(-1 / shape) - 1)."""
        lower, upper = (
            self.rate * math.expm1(-math.log1p(-p) / self.shape) for p in (0.5 - level / 2, 0.5 + level / 2)
        )
        mean = self.rate / (self.shape - 1) if self.shape > 1 else math.nan
        return {name: np.full(len(inputs), x) for name, x in {"mean": mean, "lower": lower, "upper": upper}.items()}

    def log_evidence(self) -> float:
        """A(posterior) - A(prior)."""
        prior = gamma.Parameters(self.model.shape, self.model.rate)
        return gamma.log_normaliser(gamma.Parameters(self.shape, self.rate)) - gamma.log_normaliser(prior)


def _counted(statistics: Matrix) -> Matrix:
    """Rows (count, exposure, log base measure) as for Poisson counts: the number of events in the total time."""
    return np.column_stack([statistics, np.zeros(len(statistics))])
