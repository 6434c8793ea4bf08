"""Predictions for new rows: the inputs that a model needs of them, and what its posterior says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streaminfer.models.events import Events, Field
from streaminfer.models.model import Groups, Posterior, Predictions, predicts
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.lda.posterior import AnyTopics


class CannotPredict(ValueError):
    """A model that has no predictions, or an interval that is none."""


def inputs_of(spec: Spec) -> tuple[Field, ...]:
    """What a prediction reads of a row, each with its place there; raises CannotPredict."""
    if not predicts(spec.model):
        raise CannotPredict(
            f"model.kind: {spec.kind} does not predict: its class has no `inputs`, which says what a new row must "
            "have; docs/own-models.md explains how a model predicts"
        )
    drawn = kind_of(spec).drawn
    if drawn is not None and not drawn.predicts(spec):
        raise CannotPredict(
            f"model.kind: {spec.kind} does not predict by draws: its class has no `predictions(parameters, inputs, "
            "level)`; docs/own-models.md explains how a model predicts"
        )
    located = {each.name: each for each in spec.fields}
    return tuple(located[each.name] for each in spec.model.inputs)


def outputs_of(spec: Spec) -> tuple[str, ...]:
    """The names of the columns of predictions (n, k), if they have any."""
    return spec.model.outputs if predicts(spec.model) else ()


def predicted(posterior: Posterior | AnyTopics, events: Events, level: float) -> Predictions:
    """What a posterior says of events with the inputs alone, by name."""
    if not 0 < level < 1:
        raise CannotPredict(f"interval: must be a number between 0 and 1, such as 0.95 (got {level!r})")
    if isinstance(posterior, AnyTopics):
        return posterior.predict(events.bagged)
    found: Predictions = posterior.predict(events.numbers, level)  # type: ignore[attr-defined]  # it `Predicts`
    return found


def by_key(posteriors: Sequence[Posterior | AnyTopics], events: Events, groups: Groups, level: float) -> Predictions:
    """The same for events in groups (n,), each predicted by the posterior of its group."""
    made: Predictions = {}
    for group in np.unique(groups).tolist():
        which = np.flatnonzero(groups == group)
        for name, values in predicted(posteriors[group], events.only(which), level).items():
            made.setdefault(name, np.empty((events.n, *values.shape[1:])))[which] = values
    return made


def first(values: Any) -> Any:
    """The first row of an array: a number, or an array if it has several."""
    return float(values[0]) if values.ndim == 1 else values[0]
