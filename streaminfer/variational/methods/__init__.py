"""The methods of inference that a spec may name: one row each. Nothing else tells them apart.

A method says which options it has, what a worker learns by it and how the master folds that. It also says what the
worker starts from next, what is published, and which service does the work. topics.yaml says which topics it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streaminfer.models.model import AnyModel, Filter, Matrix, Model, Vector
from streaminfer.models.options import Option
from streaminfer.variational.base import Base
from streaminfer.variational.forgetting.decay import Forgetting
from streaminfer.variational.increment import Increment
from streaminfer.variational.methods import adding, blend, memoized, svb, svi
from streaminfer.variational.methods.svb import Step
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.settings import Inference
from streaminfer.variational.snapshot import Snapshot

Learn = Callable[[Model, Inference, Base, Matrix, Vector | None, Vector | None], Step]
Fold = Callable[
    [Model, Inference, Snapshot, Increment, int, Forgetting | None],
    tuple[Snapshot, Outcome],
]
Statistics = Callable[[Model, Inference, Snapshot], Vector]


def _held(_model: Model, _inference: Inference, snapshot: Snapshot) -> Vector:
    return snapshot.payload.statistics


def _once(_inference: Inference, _snapshot: Snapshot, _averaged: bool) -> float:
    return 1.0


def _always(_snapshot: Snapshot, _increment: Increment) -> bool:
    return True


def _nothing(_options: Mapping[str, Any]) -> None:
    """Nothing more to check."""


@dataclass(frozen=True)
class Method:
    """One row. `learn` is the worker's part, `fold` the master's."""

    name: str
    learn: Learn
    fold: Fold
    worker: str
    """The service that learns by it."""
    options: tuple[Option, ...] = ()
    """Keys of a spec's section `inference` that only this method, and others that list them too, have."""
    complete: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """Fills the defaults that depend on other options."""
    check: Callable[[Mapping[str, Any]], None] = _nothing
    """Raises OptionsError if options do not fit together."""
    iterate: Statistics = _held
    """The statistics that a worker learns from."""
    published: Statistics = _held
    """The statistics of the posterior that a snapshot publishes."""
    times: Callable[[Inference, Snapshot, bool], float] = _once
    """How often what is held counts; the flag says that it is an average of steps."""
    fits: Callable[[Snapshot, Increment], bool] = _always
    """Whether an increment that continues the frontier can be folded."""
    passes: bool = False
    """Whether events may be met again: then the starts of partitions are kept."""
    keeps_batches: bool = False
    """Whether every minibatch of the first pass is a batch that later passes visit as it was."""
    forgets: bool = False
    """Whether what is held can be decayed."""
    merges: bool = False
    """Whether minibatches may be folded as one, if what they teach does not depend on a base."""


METHODS: Final[Mapping[str, Method]] = {
    method.name: method
    for method in (
        Method("svb", svb.learn, adding.fold, "svb-worker", svb.OPTIONS, forgets=True, merges=True),
        Method(
            "svi",
            svi.learn,
            blend.fold,
            "svi-worker",
            svi.OPTIONS,
            svi.complete,
            svi.check,
            iterate=blend.iterate,
            published=blend.published,
            times=blend.of_all,
            passes=True,
        ),
        Method(
            "memoized",
            memoized.learn,
            memoized.fold,
            "svi-worker",
            memoized.OPTIONS,
            memoized.complete,
            memoized.check,
            fits=memoized.is_whole,
            passes=True,
            keeps_batches=True,
        ),
    )
}


def method_of(inference: Inference) -> Method:
    """The row of a spec's method."""
    return METHODS[inference.method]


def learn(
    model: Model,
    inference: Inference,
    base: Base,
    events: Matrix,
    weights: Vector | None = None,
    own: Vector | None = None,
) -> Step:
    """What a minibatch (n, fields) says; `weights` (n,) if some events count less than others.

    `own` are the statistics that the base has of this minibatch, if an earlier pass met it (see `visits_cavity`).
    """
    return method_of(inference).learn(model, inference, base, events, weights, own)


def base_of(model: Model, inference: Inference, snapshot: Snapshot) -> Base:
    """What a snapshot offers to start from."""
    statistics = method_of(inference).iterate(model, inference, snapshot)
    return Base(snapshot.version, snapshot.n_events, statistics, model.posterior(statistics))


def visits_cavity(model: AnyModel, inference: Inference) -> bool:
    """Whether a later visit of a batch must know what the posterior has of it: batches of a filter."""
    return method_of(inference).keeps_batches and isinstance(model, Filter)


def meaning(inference: Inference) -> dict[str, Any]:
    """The options that change what an increment means; if batches are kept, also which events are a batch."""
    batches = {"minibatch": inference.minibatch} if method_of(inference).keeps_batches else {}
    return {**inference.meaning, **batches}
