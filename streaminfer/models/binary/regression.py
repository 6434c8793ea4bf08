"""What regressions of a 0/1 target share: P(y = 1) = f(w · z), z = the features, after a 1 if an intercept.

w has independent Gaussian priors; its posterior is Gaussian, with a full or a diagonal covariance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import ndtri
from streaminfer.models import totals
from streaminfer.models.binary.gaussian_weights import FORMS, DiagonalWeights, FullWeights, Prior
from streaminfer.models.events import Field
from streaminfer.models.model import DomainError, Flags, Matrix, Moments, Predictions, Vector
from streaminfer.models.options import Choice, Flag, Listing, OneOrMany, Option, OptionsError, Section, Text
from streaminfer.models.priors import POSITIVE, REAL, spread

LOCAL: Final[Mapping[str, tuple[str, ...]]] = {"full": ("ep", "laplace"), "diagonal": ("gaussian",)}
"""The local steps that every link has, by covariance; the usual one first."""
EVENTS_PER_WEIGHT: Final = 20
"""Minibatches are learned one by one until there were this many events for each weight. Before that a posterior is far
from Gaussian, and what is learned from an older one is a tenth of a deviation off."""
DIAGONAL_MINIBATCH: Final = 1024
"""Positions of a minibatch of independent weights if the spec does not say how many. What weights know of each other is
lost after every minibatch, so fewer and larger ones are better."""

_PRIOR: Final = Section(
    [
        Option("mean", OneOrMany(REAL), "prior mean of all weights, or a list with one for each, intercept first", 0.0),
        Option("precision", OneOrMany(POSITIVE), "prior precision of the features' weights, or a list of them", 1.0),
        Option("intercept_precision", POSITIVE, "prior precision of the intercept", 0.01),
    ]
)


def options(local: Option, *more: Option, complete: Callable[[dict[str, Any]], dict[str, Any]]) -> Section:
    """The options of a binary regression, with those of its own before the prior."""
    shared = (
        Option("features", Listing(Text()), "the fields with the features, in any units"),
        Option("target", Text(), "the field to be explained, 0 or 1"),
        Option("intercept", Flag(), "whether the first weight is an intercept", True),
        Option("covariance", Choice(tuple(FORMS)), "full, or diagonal: weights independent a posteriori", "full"),
        local,
    )
    return Section(
        [*shared, *more, Option("prior", _PRIOR, "Gaussian prior of the weights, independent", {})], complete
    )


def parts(options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `BinaryRegression` that checked options give; raises OptionsError."""
    features, target, prior = options["features"], options["target"], options["prior"]
    if target in features:
        raise OptionsError("target", "must not be among the features", target)
    first = (prior["intercept_precision"],) if options["intercept"] else ()
    precision = first + spread(prior["precision"], len(features), "prior.precision", "feature")
    mean = spread(prior["mean"], len(precision), "prior.mean", "weight")
    named = {name: options[name] for name in ("features", "target", "intercept", "covariance", "local")}
    return {**named, "weights_mean": mean, "weights_precision": precision}


def local_option(own: str, about: str, ep: str = "expectation propagation") -> Option:
    """How a minibatch is approximated: by a step that every link has, or by the link's `own`."""
    steps = tuple(step for steps in LOCAL.values() for step in steps)
    return Option(
        "local",
        Choice((*steps, own)),
        f"How a minibatch is approximated: ep ({ep}) or laplace, with a diagonal covariance gaussian; "
        f"or {own} {about}. Not set means ep, or gaussian.",
        None,
    )


def check_local(options: Mapping[str, Any], own: str) -> None:
    """Raises OptionsError if the local step does not fit the covariance; `own` is one that fits both."""
    covariance, local = options["covariance"], options["local"]
    known = (*LOCAL[covariance], own)
    if local not in known:
        rule = f"must be {' or '.join(known)} with a {covariance} covariance"
        raise OptionsError("local", rule, local)


class Design(NamedTuple):
    """Rows z (n, d), and the targets as signs (n,): 1 for 1 and -1 for 0."""

    rows: Matrix
    signs: Vector


@dataclass(frozen=True)
class BinaryRegression(ABC):
    """Statistics are the change of the natural parameters of the weights (see `gaussian_weights`)."""

    kind: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]
    exactness: ClassVar[str]
    options: ClassVar[Section]
    needs_base: ClassVar[bool] = True

    features: tuple[str, ...]
    target: str
    intercept: bool
    covariance: str
    local: str
    weights_mean: tuple[float, ...]
    weights_precision: tuple[float, ...]

    @classmethod
    @abstractmethod
    def build(cls, options: Mapping[str, Any]) -> BinaryRegression:
        """The form of the model that checked options say; raises OptionsError."""

    @abstractmethod
    def log_probability(self, means: Vector, deviations: Vector) -> Vector:
        """log E[f(a)] for a ~ N(mean, deviation^2), elementwise; E[f(-a)] is 1 less that."""

    @property
    def serial_events(self) -> int:
        """Events before which no minibatch is learned from an older posterior."""
        return EVENTS_PER_WEIGHT * len(self.weights_mean)

    @property
    def usual_minibatch(self) -> int | None:
        """Positions of a minibatch; None: as for other models."""
        return DIAGONAL_MINIBATCH if self.covariance == "diagonal" else None

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return (*(Field(name, "number") for name in self.features), Field(self.target, "binary"))

    @cached_property
    def prior(self) -> Prior:
        return Prior(np.array(self.weights_mean), np.array(self.weights_precision))

    @property
    def inputs(self) -> tuple[Field, ...]:
        return self.fields[:-1]

    @property
    def outputs(self) -> tuple[str, ...]:
        return ()

    @property
    def form(self) -> type[FullWeights] | type[DiagonalWeights]:
        return FORMS[self.covariance]

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        return {"weights": (*(("intercept",) if self.intercept else ()), *self.features)}

    @property
    def size(self) -> int:
        return self.form.size(len(self.weights_mean))

    def empty(self) -> Vector:
        return np.zeros(self.size)

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Matrix
    ) -> NDArray[np.float64]:
        """The target is 1 with probability f(w · z)."""
        weights, rows = parameters["weights"], self.design(events).rows
        margins = weights @ rows.T
        logs = self.log_probability(margins.ravel(), np.zeros(margins.size)).reshape(margins.shape)
        found = np.repeat(events[None], len(weights), axis=0)
        found[:, :, -1] = rng.random(margins.shape) < np.exp(logs)
        return found

    def merge(self, a: Vector, b: Vector) -> Vector:
        return a + b

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        return totals.scale(statistics, weight)

    def proper(self, statistics: Matrix) -> Flags:
        if statistics.shape[1:] != (self.size,):
            raise DomainError(f"rows of statistics have shape {statistics.shape[1:]}, not ({self.size},)")
        return self.form.proper(statistics, self.prior)

    def posterior(self, statistics: Vector) -> BinaryPosterior:
        return BinaryPosterior(self, self.form.of(self.prior, statistics))

    def design(self, events: Matrix) -> Design:
        rows = np.hstack([np.ones((len(events), 1)), events[:, :-1]]) if self.intercept else events[:, :-1]
        return Design(rows, 2 * events[:, -1] - 1)


@dataclass(frozen=True, slots=True, eq=False)
class BinaryPosterior:
    """Gaussian weights of a binary regression."""

    model: BinaryRegression
    weights: FullWeights | DiagonalWeights

    @property
    def family(self) -> str:
        return self.weights.family

    @property
    def natural(self) -> Vector:
        return self.weights.natural

    def moments(self) -> dict[str, Moments]:
        return {"weights": self.weights.moments()}

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        return {"weights": self.weights.sample(rng, n)}

    def log_predictive(self, events: Matrix) -> Vector:
        """log E[f(s w · z)], s = the target as a sign."""
        rows, signs = self.model.design(events)
        return self.model.log_probability(signs * (rows @ self.weights.mean), self.weights.deviations(rows))

    def predict(self, inputs: Matrix, level: float) -> Predictions:
        """The probability of a one, E[f(a)], a = w · z, and the interval of f(a): f at the ends of that of a."""
        rows, _ = self.model.design(np.column_stack([inputs, np.zeros(len(inputs))]))
        means, deviations = rows @ self.weights.mean, self.weights.deviations(rows)
        half, none = ndtri(0.5 * (1 + level)) * deviations, np.zeros(len(rows))
        ends = {
            "lower": self.model.log_probability(means - half, none),
            "upper": self.model.log_probability(means + half, none),
        }
        logs = {"probability": self.model.log_probability(means, deviations), **ends}
        return {name: np.exp(values) for name, values in logs.items()}

    def log_evidence(self) -> float:
        """NaN: the constants of the sites are not a part of the statistics."""
        return math.nan
