"""Counts with too many zeros: a count is 0 with probability `closed`, else k ~ Poisson(rate).

closed ~ Beta(alpha, beta), rate ~ Gamma(shape, rate). Whether a zero comes from a closed shop is the event's own
variable z. Given q(closed) q(rate) it is z ~ Bernoulli(r), log r / (1 - r) = E log closed - E log(1 - closed) + E rate,
and r = 0 if k > 0 (Bishop 2006, section 10.1; Lambert 1992 for the model).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import beta, gamma
from streaminfer.families.special import gammaln
from streaminfer.models import priors, totals
from streaminfer.models.events import Field
from streaminfer.models.model import Flags, Matrix, Moments, Vector
from streaminfer.models.options import Option, Section, Text
from streaminfer.models.predictive import log_negative_binomial


@dataclass(frozen=True)
class Visits:
    """Statistics are (expected number of closed, expected number of open, sum of k)."""

    kind: ClassVar[str] = "visits"
    methods: ClassVar[tuple[str, ...]] = ("svb", "svi")
    exactness: ClassVar[str] = "bound"
    needs_base: ClassVar[bool] = True
    options: ClassVar[Section] = Section(
        [
            Option("field", Text(), "the field that holds a count"),
            Option(
                "prior",
                Section(
                    [
                        Option("alpha", priors.POSITIVE, "pseudo-count of events while the shop is closed", 1.0),
                        Option("beta", priors.POSITIVE, "pseudo-count of events while the shop is open", 1.0),
                        Option("shape", priors.POSITIVE, "shape of the rate's prior", 1.0),
                        Option("rate", priors.POSITIVE, "rate (inverse scale) of the rate's prior", 1.0),
                    ]
                ),
                "Beta prior of the probability that the shop is closed, Gamma prior of the rate",
                {},
            ),
        ]
    )

    field: str
    alpha: float = 1.0
    beta: float = 1.0
    shape: float = 1.0
    rate: float = 1.0

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        return cls(options["field"], **options["prior"])

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field(self.field, "count"),)

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    @property
    def size(self) -> int:
        return 3

    def empty(self) -> Vector:
        return np.zeros(3)

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Matrix
    ) -> NDArray[np.float64]:
        closed, rate = (parameters[name][:, None, None] for name in ("closed", "rate"))
        shape = (len(closed), len(events), 1)
        return np.where(rng.random(shape) < closed, 0.0, rng.poisson(rate, shape))

    def merge(self, a: Vector, b: Vector) -> Vector:
        return a + b

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        return totals.scale(statistics, weight)

    def proper(self, statistics: Matrix) -> Flags:
        return totals.proper(statistics, 3, totals=3)

    def posterior(self, statistics: Vector) -> VisitsPosterior:
        closed, opened, total = totals.checked(statistics, 3, totals=3)
        return VisitsPosterior(
            beta.Parameters(self.alpha + closed, self.beta + opened),
            gamma.Parameters(self.shape + total, self.rate + opened),
        )

    def expected(self, q: VisitsPosterior, events: Matrix, weights: Vector | None = None) -> Vector:
        counts = events[:, 0]
        counted = np.ones(len(counts)) if weights is None else weights
        closed = np.where(counts == 0, q.closed_if_zero(), 0.0)
        return np.array([counted @ closed, counted @ (1 - closed), counted @ counts])

    def elbo(self, q: VisitsPosterior, events: Matrix) -> float:
        """The sum of E log p(z | closed) + E log p(k | z, rate) + H(z), minus KL(q, prior) of both parameters."""
        counts = events[:, 0]
        log_closed, log_open = q.log_closed()
        log_rate, rate = q.log_rate(), q.on_rate.shape / q.on_rate.rate
        r = np.where(counts == 0, q.closed_if_zero(), 0.0)
        likelihood = (1 - r) * (counts * log_rate - rate - gammaln(counts + 1))
        local = r * log_closed + (1 - r) * log_open + likelihood + _entropy(r)
        far = beta.kl(q.on_closed, beta.Parameters(self.alpha, self.beta))
        far += gamma.kl(q.on_rate, gamma.Parameters(self.shape, self.rate))
        return float(local.sum()) - far


@dataclass(frozen=True, slots=True)
class VisitsPosterior:
    """q(closed) q(rate), a Beta and a Gamma; natural parameters are (alpha, beta, shape, rate)."""

    family: ClassVar[str] = "beta-gamma"

    on_closed: beta.Parameters
    on_rate: gamma.Parameters

    @property
    def natural(self) -> Vector:
        return np.array([*self.on_closed, *self.on_rate])

    def log_closed(self) -> tuple[float, float]:
        """E log closed, E log(1 - closed)."""
        closed, opened = beta.expected_statistics(beta.to_natural(self.on_closed)).tolist()
        return closed, opened

    def log_rate(self) -> float:
        """E log rate."""
        return float(gamma.expected_statistics(gamma.to_natural(self.on_rate))[0])

    def closed_if_zero(self) -> float:
        """r, the probability that a zero comes from a closed shop."""
        log_closed, log_open = self.log_closed()
        return float(np.exp(-np.logaddexp(0.0, log_open - log_closed - self.on_rate.shape / self.on_rate.rate)))

    def moments(self) -> dict[str, Moments]:
        """Means and standard deviations; the two parameters are independent under q."""
        (a, b), (shape, rate) = self.on_closed, self.on_rate
        closed = np.array(a / (a + b)), np.array(math.sqrt(a / (a + b) * (b / (a + b)) / (a + b + 1)))
        return {
            "closed": Moments(*closed),
            "rate": Moments(np.array(shape / rate), np.array(math.sqrt(shape) / rate)),
        }

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        return {"closed": beta.sample(self.on_closed, rng, n), "rate": gamma.sample(self.on_rate, rng, n)}

    def log_predictive(self, events: Matrix) -> Vector:
        """E closed [k = 0] + E(1 - closed) NegativeBinomial(k)."""
        counts, (a, b) = events[:, 0], self.on_closed
        opened = math.log(b / (a + b)) + log_negative_binomial(counts, np.ones(len(counts)), *self.on_rate)
        return np.where(counts == 0, np.logaddexp(math.log(a / (a + b)), opened), opened)

    def log_evidence(self) -> float:
        """NaN: statistics are not enough to compute it."""
        return math.nan


def _entropy(r: Vector) -> Vector:
    """-r log r - (1 - r) log(1 - r)."""
    inside = np.clip(r, 1e-300, 1 - 1e-16)
    return np.where((r > 0) & (r < 1), -r * np.log(inside) - (1 - r) * np.log1p(-inside), 0.0)
