"""What every model is: statistics of events that merge, and the posterior they give.

A posterior is a prior and a vector of statistics. Statistics of disjoint sets of events merge into those of
their union, in any order and grouping; for a conjugate model that is the whole of streaming inference.
They are kept centred if a plain sum of squares would lose digits, so `merge` is the model's own.
A matrix of statistics (k, size) has one set of events in each row; what is asked of rows is answered without a loop
over them.

Models differ in what the statistics of events depend on. With a `Conjugate` model they depend on the events alone. With
a `Latent` one they are expected under a posterior, as each event has variables of its own. A `Filter` turns a posterior
and events into the change of the posterior by itself. One that also `Predicts` says what new events will be, and one
that is `Simulating` draws them. A `WordModel` has statistics for each word, and one posterior of all words together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.events import Field
from streaminfer.models.options import Section

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Flags = NDArray[np.bool_]
Groups = NDArray[np.integer[Any]]
Labels = tuple[str, ...] | tuple[tuple[str, ...], ...]


class DomainError(ValueError):
    """Statistics that give no proper posterior, such as a negative count."""


class Moments(NamedTuple):
    """Moments of one parameter; NaN if a moment does not exist. `cov` only for vectors."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    cov: NDArray[np.float64] | None = None


class Absorbed(NamedTuple):
    """The change of the statistics that a minibatch makes, and whether the algorithm that found it has converged."""

    statistics: NDArray[np.float64]
    converged: bool


class Posterior(Protocol):
    """The distribution of a model's parameters given statistics."""

    @property
    def family(self) -> str:
        """The name of its family: a key of `streaminfer.families.FAMILIES`, or one that the model documents."""

    @property
    def natural(self) -> Vector:
        """The natural parameters, in the layout that the family's module (or the model) documents."""

    def moments(self) -> dict[str, Moments]:
        """Mean, sd and covariance of each parameter, in declared order."""

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        """n draws of each parameter, jointly; the first axis is the draw."""

    def log_predictive(self, events: Matrix) -> Vector:
        """log p(event | the events absorbed) for each row of `events` (n, fields) -> (n,)."""

    def log_evidence(self) -> float:
        """log p(the events absorbed), the marginal likelihood; NaN if statistics do not tell it."""


class AnyModel(Protocol):
    """A likelihood with a prior, whose statistics merge: what a model is, whatever its posterior is of. Immutable."""

    kind: ClassVar[str]
    """Its name in the table of models. Specs and snapshots name a user's own model `package.module:Class` instead."""
    options: ClassVar[Section]
    """What the `model` section of a spec may say, without `kind`; its last option is the section `prior`."""
    methods: ClassVar[tuple[str, ...]]
    """The methods of inference that it can be inferred by, the usual one first."""
    exactness: ClassVar[str]
    """What its posterior is: `exact`, `bound` or `approximate`."""
    needs_base: ClassVar[bool]
    """Whether an increment depends on the posterior it starts from. Conjugate models: False."""

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> AnyModel:
        """From options that `cls.options` has checked; raises OptionsError if they do not fit together."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """What it reads of an event; the columns of every `events` matrix, in this order."""

    @property
    def labels(self) -> Mapping[str, Labels]:
        """What the coordinates of its vector and matrix parameters are called; axis by axis, if they differ."""

    @property
    def size(self) -> int:
        """The length of its statistics."""

    def empty(self) -> Vector:
        """The statistics of no event."""

    def merge(self, a: Vector, b: Vector) -> Vector:
        """The statistics of the union of two disjoint sets of events; row by row, if they are (..., size)."""

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        """The statistics of the same events, each counted `weight` times (weight >= 0).

        Statistics may be (..., size) and the weight (...,).
        """

    def proper(self, statistics: Matrix) -> Flags:
        """Which rows (k, size) give a posterior; raises DomainError if the rows have another length."""


class Model(AnyModel, Protocol):
    """A model whose posterior is that of one vector of statistics."""

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Model:
        """As of `AnyModel`."""

    def posterior(self, statistics: Vector) -> Posterior:
        """The posterior; raises DomainError if the statistics give none."""


class WordModel(AnyModel, Protocol):
    """A model of documents, with parameters for each word.

    A word has a row of statistics (size,), and events change the rows of their own words only. The posterior is of the
    rows of all words together: one word has none.
    """

    @property
    def known(self) -> frozenset[bytes] | None:
        """The words of a fixed vocabulary in UTF-8; None if words come as they are met."""

    @property
    def shards(self) -> int:
        """Into how many parts the words are divided."""

    @property
    def most_words(self) -> int:
        """The most different words that a document may have."""

    def natural_of(self, rows: Matrix) -> Matrix:
        """The natural parameters (size, m) of words, one column for each, given their rows (m, size).

        Those of all words are the natural parameters of the posterior. Raises DomainError if a row is not proper.
        """


def is_of_words(model: type[AnyModel]) -> TypeGuard[type[WordModel]]:
    """Whether a class of models has statistics for each word."""
    return hasattr(model, "natural_of")


class Conjugate(Model, Protocol):
    """A model whose statistics are those of the events, whatever the posterior."""

    def statistics(self, events: Matrix, weights: Vector | None = None) -> Vector:
        """The statistics of a minibatch (n, fields), n >= 1, whose values are in the fields' domains.

        With `weights` (n,) each event counts as often as its weight says: from 0 to 1, and the largest is 1.
        """

    def statistics_by(self, events: Matrix, groups: Groups, k: int, weights: Vector | None = None) -> Matrix:
        """The statistics (k, size) of each group of events; `groups` (n,) are from 0 to k - 1.

        A row without events is `empty()`. The largest weight of each group is 1.
        """

    def log_evidences(self, statistics: Matrix) -> Vector:
        """`posterior(row).log_evidence()` of each row (k, size); raises DomainError if a row has no posterior."""

    @property
    def prior_options(self) -> Mapping[str, Any]:
        """The prior as the `prior` section of a spec says it, lists written out."""

    def with_prior(self, prior: Mapping[str, Any]) -> Self:
        """The same model with another prior section; what it leaves out stays. Raises OptionsError."""

    def pooled(self, statistics: Matrix) -> Self:
        """The same model with the prior that maximises the sum of `log_evidences` (empirical Bayes, see `pooling`).

        It is not surer than the rows allow, and never has a smaller sum than its own; unchanged if fewer than two rows
        have events.
        """


@runtime_checkable
class Counting(Model, Protocol):
    """A model whose statistics say of how many events they are. A model need not be one."""

    def total_weight(self, statistics: Matrix) -> Vector:
        """The sum of the events' weights, each 1 at most, in each row (k, size) of statistics."""


@runtime_checkable
class Latent(Model, Protocol):
    """A model whose events have variables of their own, or a likelihood that is bounded event by event.

    Given a posterior q of the parameters, the best q of an event's own variables is known, and with it the event's
    expected statistics. Given those, the best q of the parameters is `posterior`. To and fro is coordinate ascent.
    """

    def expected(self, q: Any, events: Matrix, weights: Vector | None = None) -> Vector:
        """The expected statistics of a minibatch (n, fields), n >= 1, under a posterior `q` of this model.

        Weights are as of `Conjugate.statistics`. If `q` is the prior and tells no component from another, it starts
        from a place that depends only on the model's `seed` and the events. So all workers share it.
        """

    def elbo(self, q: Any, events: Matrix) -> float:
        """E_q[log p(events, variables, parameters)] + entropy of q: at most log p(events).

        The q of the events' own variables is the best one given `q`. By its definition, term by term, and never by
        what the updates compute: it is what they are checked against.
        """


@runtime_checkable
class Filter(Model, Protocol):
    """A model that takes events into a posterior by an algorithm of its own, such as assumed density filtering."""

    def absorb(self, base: Any, events: Matrix, weights: Vector | None = None) -> Vector | Absorbed:
        """The change of the statistics that a minibatch (n, fields), n >= 1, makes to a posterior of this model.

        Weights are as of `Conjugate.statistics`. A plain vector stands for an algorithm that needs no convergence.
        """


@runtime_checkable
class Simulating(AnyModel, Protocol):
    """A model that makes up events: what it explains, drawn anew given what it takes as it is. It need not be one."""

    def simulate(
        self, rng: np.random.Generator, parameters: Mapping[str, NDArray[np.float64]], events: Any
    ) -> Sequence[Any]:
        """One set of events for each of k draws of the parameters (k, ...): an array (k, n, fields).

        Events (n, fields) give the number n and the columns that are not drawn, such as features and exposures. A model
        of documents takes them `Bagged`, keeps their lengths, and returns a list of k.
        """


Predictions = dict[str, NDArray[np.float64]]
"""By name: (n,), a number for each row, or (n, k), one for each of k outputs."""


class Predicting(Posterior, Protocol):
    """A posterior that predicts what a new event will be."""

    def predict(self, inputs: Matrix, level: float) -> Predictions:
        """Predictions for rows (n, inputs), n >= 0, of values that are in the fields' domains.

        Central intervals are named `lower` and `upper`, and hold `level` of the probability, which is between 0 and 1.
        """


class Predicts(Model, Protocol):
    """A model whose posteriors are `Predicting`. A model need not be one."""

    @property
    def inputs(self) -> tuple[Field, ...]:
        """Those of `fields` that a prediction needs, without what is predicted; may be none."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the k columns of predictions (n, k); () if there are none, or if they have no names."""


def predicts(model: AnyModel) -> TypeGuard[Predicts]:
    """Whether a model's posteriors predict."""
    return hasattr(model, "inputs")


def has_posterior(model: AnyModel) -> TypeGuard[Model]:
    """Whether one vector of statistics gives a posterior."""
    return hasattr(model, "posterior")


def with_posterior(model: AnyModel) -> Model:
    """The same model, if one vector of its statistics gives a posterior; raises TypeError if not."""
    if not has_posterior(model):
        raise TypeError(f"{model.kind} has a posterior of many rows of statistics, not of one")
    return model


def is_conjugate(model: AnyModel) -> TypeGuard[Conjugate]:
    """Whether a model's statistics need no posterior; asked for every minibatch, for which isinstance is too slow."""
    return hasattr(model, "statistics")


def is_counting(model: AnyModel) -> TypeGuard[Counting]:
    """Whether a model's statistics say of how many events they are; asked for every increment, as above."""
    return hasattr(model, "total_weight")


def conjugate(model: AnyModel) -> Conjugate:
    """The same model, if its statistics need no posterior; raises TypeError if they do."""
    if not is_conjugate(model):
        raise TypeError(f"{model.kind} is not a conjugate model")
    return model
