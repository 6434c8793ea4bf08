"""What every model is: statistics of events that merge, and the posterior they give.

A posterior is a prior and a vector of statistics. Statistics of disjoint sets of events merge into those of
their union, in any order and grouping; for a conjugate model that is the whole of streaming inference.
They are kept centred where a plain sum of squares would lose digits, so `merge` is the model's own.
A matrix of statistics (k, size) has one set of events in each row; what is asked of rows is answered without a loop
over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.events import Field
from streaminfer.models.options import Section

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Flags = NDArray[np.bool_]
Groups = NDArray[np.integer[Any]]


class DomainError(ValueError):
    """Statistics that give no proper posterior, such as a negative count."""


class Moments(NamedTuple):
    """Moments of one parameter; NaN where a moment does not exist. `cov` only for vectors."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    cov: NDArray[np.float64] | None = None


class Posterior(Protocol):
    """The distribution of a model's parameters given statistics."""

    @property
    def family(self) -> str:
        """The name of its exponential family, a key of `streaminfer.families.FAMILIES`."""

    @property
    def natural(self) -> Vector:
        """The natural parameters, in the layout that the family's module documents."""

    def moments(self) -> dict[str, Moments]:
        """Mean, sd and covariance of each parameter, in declared order."""

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        """n draws of each parameter, jointly; the first axis is the draw."""

    def log_predictive(self, events: Matrix) -> Vector:
        """log p(event | the events absorbed) for each row of `events` (n, fields) -> (n,)."""

    def log_evidence(self) -> float:
        """log p(the events absorbed), the marginal likelihood."""


class Model(Protocol):
    """A likelihood with a prior. Immutable."""

    kind: ClassVar[str]
    options: ClassVar[Section]
    """What the `model` section of a spec may say, without `kind`; its last option is the section `prior`."""
    exactness: ClassVar[str]
    """What its posterior is: `exact`, `bound` or `approximate`."""
    needs_base: ClassVar[bool]
    """Whether an increment depends on the posterior it starts from. Conjugate models: False."""

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        """From options that `cls.options` has checked; raises OptionsError where they do not fit together."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """What it reads of an event; the columns of every `events` matrix, in this order."""

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        """What the coordinates of its vector and matrix parameters are called."""

    @property
    def size(self) -> int:
        """The length of its statistics."""

    def empty(self) -> Vector:
        """The statistics of no event."""

    def statistics(self, events: Matrix, weights: Vector | None = None) -> Vector:
        """The statistics of a minibatch (n, fields), n >= 1, whose values are in the fields' domains.

        With `weights` (n,) each event counts as often as its weight says: from 0 to 1, and the largest is 1.
        """

    def statistics_by(self, events: Matrix, groups: Groups, k: int, weights: Vector | None = None) -> Matrix:
        """The statistics (k, size) of each group of events; `groups` (n,) are from 0 to k - 1.

        A row without events is `empty()`. The largest weight of each group is 1.
        """

    def merge(self, a: Vector, b: Vector) -> Vector:
        """The statistics of the union of two disjoint sets of events; of each row, where they are (..., size)."""

    def scale(self, statistics: Vector, weight: float | Vector) -> Vector:
        """The statistics of the same events, each counted `weight` times (0 <= weight <= 1).

        Statistics may be (..., size) and the weight (...,).
        """

    def proper(self, statistics: Matrix) -> Flags:
        """Of which rows (k, size) there is a posterior; raises DomainError where the rows have another length."""

    def log_evidences(self, statistics: Matrix) -> Vector:
        """`posterior(row).log_evidence()` of each row (k, size); raises DomainError where a row has no posterior."""

    @property
    def prior_options(self) -> Mapping[str, Any]:
        """The prior as the `prior` section of a spec says it, lists written out."""

    def with_prior(self, prior: Mapping[str, Any]) -> Self:
        """The same model with another prior section; what it leaves out stays. Raises OptionsError."""

    def pooled(self, statistics: Matrix) -> Self:
        """The same model with the prior that maximises the sum of `log_evidences` (empirical Bayes, see `pooling`).

        Never one with a smaller sum than its own; unchanged where fewer than two rows have events.
        """

    def posterior(self, statistics: Vector) -> Posterior:
        """The posterior; raises DomainError where the statistics give none."""
