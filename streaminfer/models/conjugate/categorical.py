"""Categorical events with a Dirichlet prior: y ~ Categorical(p), p ~ Dirichlet(concentration)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import dirichlet
from streaminfer.families.special import betaincinv
from streaminfer.models import pooled_counts, pooling, priors, totals
from streaminfer.models.events import Field
from streaminfer.models.model import Flags, Groups, Matrix, Moments, Predictions, Vector
from streaminfer.models.options import Listing, OneOrMany, Option, Section, Text
from streaminfer.models.priors import POSITIVE, spread


@dataclass(frozen=True)
class Categorical:
    """Statistics are the counts of the categories, in declared order."""

    kind: ClassVar[str] = "categorical"
    methods: ClassVar[tuple[str, ...]] = ("svb",)
    exactness: ClassVar[str] = "exact"
    needs_base: ClassVar[bool] = False
    options: ClassVar[Section] = Section(
        [
            Option("field", Text(), "the field that holds a category"),
            Option("categories", Listing(Text(), minimum=2), "all values the field may have, as strings"),
            Option(
                "prior",
                Section(
                    [
                        Option(
                            "concentration",
                            OneOrMany(POSITIVE),
                            "prior count of every category, or a list with one for each",
                            1.0,
                        )
                    ]
                ),
                "Dirichlet prior of p, the probabilities of the categories",
                {},
            ),
        ]
    )

    field: str
    categories: tuple[str, ...]
    concentration: tuple[float, ...]

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        categories = options["categories"]
        given = options["prior"]["concentration"]
        return cls(options["field"], categories, spread(given, len(categories), "prior.concentration", "category"))

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (Field(self.field, "category", self.categories),)

    @property
    def inputs(self) -> tuple[Field, ...]:
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.categories

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        return {"p": self.categories}

    @property
    def size(self) -> int:
        return len(self.categories)

    @cached_property
    def prior(self) -> Vector:
        """The concentration before any event, (k,)."""
        return np.array(self.concentration)

    def empty(self) -> Vector:
        return np.zeros(self.size)

    def statistics(self, events: Matrix, weights: Vector | None = None) -> Vector:
        return np.bincount(events[:, 0].astype(np.intp), weights, minlength=self.size).astype(np.float64)

    def statistics_by(self, events: Matrix, groups: Groups, k: int, weights: Vector | None = None) -> Matrix:
        cells = groups.astype(np.intp) * self.size + events[:, 0].astype(np.intp)
        return np.bincount(cells, weights, minlength=k * self.size).astype(np.float64).reshape(k, self.size)

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Matrix
    ) -> NDArray[np.float64]:
        """The category in whose part of the unit interval a uniform number falls."""
        ends = np.cumsum(parameters["p"], axis=1)
        drawn = rng.random((len(ends), len(events))) * ends[:, -1:]
        found = [np.searchsorted(row, each, side="right") for row, each in zip(ends, drawn, strict=True)]
        return np.array(found, dtype=np.float64).reshape(len(ends), len(events), 1)

    def merge(self, a: Vector, b: Vector) -> Vector:
        return a + b

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        return totals.scale(statistics, weight)

    def proper(self, statistics: Matrix) -> Flags:
        return totals.proper(statistics, self.size, totals=self.size)

    def total_weight(self, statistics: Matrix) -> Vector:
        return np.asarray(statistics.sum(axis=1))

    def log_evidences(self, statistics: Matrix) -> Vector:
        totals.require(self.proper(statistics))
        return pooled_counts.dirichlet_evidences(statistics, self.prior)

    @property
    def prior_options(self) -> Mapping[str, Any]:
        return {"concentration": list(self.concentration)}

    def with_prior(self, prior: Mapping[str, Any]) -> Self:
        given = priors.checked(self.options, self.prior_options, prior)
        return self.build({"field": self.field, "categories": self.categories, "prior": given})

    def pooled(self, statistics: Matrix) -> Self:
        totals.require(self.proper(statistics))
        rows = statistics[statistics.any(axis=1)]
        if len(rows) < 2:
            return self
        concentration = priors.positives(pooled_counts.dirichlet(rows, self.prior))
        return pooling.better(self, self.with_prior({"concentration": concentration}), rows)

    def posterior(self, statistics: Vector) -> CategoricalPosterior:
        totals.checked(statistics, self.size, totals=self.size)
        return CategoricalPosterior(self, self.prior + statistics)


@dataclass(frozen=True, slots=True, eq=False)
class CategoricalPosterior:
    """p ~ Dirichlet(concentration), (k,)."""

    family: ClassVar[str] = "dirichlet"

    model: Categorical
    concentration: Vector

    @property
    def natural(self) -> Vector:
        return self.concentration.copy()

    def moments(self) -> dict[str, Moments]:
        """p: mean c / sum c, covariance (diag(mean) - mean mean') / (1 + sum c)."""
        total = float(self.concentration.sum())
        mean = self.concentration / total
        cov = (np.diag(mean) - np.outer(mean, mean)) / (1 + total)
        sd = np.sqrt(mean * ((total - self.concentration) / total) / (1 + total))
        return {"p": Moments(mean, sd, cov)}

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        return {"p": dirichlet.sample(dirichlet.Parameters(self.concentration), rng, n)}

    def log_predictive(self, events: Matrix) -> Vector:
        """log c_k / sum c of each event's category k."""
        shares = np.log(self.concentration) - np.log(self.concentration.sum())
        return np.asarray(shares[events[:, 0].astype(np.intp)], dtype=np.float64)

    def predict(self, inputs: Matrix, level: float) -> Predictions:
        """The probability of each category, c / sum c, and the interval of its p, which is Beta(c, sum c - c)."""
        own, total = self.concentration, float(self.concentration.sum())
        others = np.array([np.delete(own, i).sum() for i in range(len(own))])
        lower, upper = (betaincinv(own, others, p) for p in (0.5 * (1 - level), 0.5 * (1 + level)))
        found = {"probability": own / total, "lower": lower, "upper": upper}
        return {name: np.tile(values, (len(inputs), 1)) for name, values in found.items()}

    def log_evidence(self) -> float:
        """log B(posterior) - log B(prior)."""
        prior, posterior = dirichlet.Parameters(self.model.prior), dirichlet.Parameters(self.concentration)
        return dirichlet.log_normaliser(posterior) - dirichlet.log_normaliser(prior)
