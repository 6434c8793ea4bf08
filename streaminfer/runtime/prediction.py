"""Predictions for new rows: the inputs that a model needs of them, and what its posterior says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streaminfer.models.bagged import bagged
from streaminfer.models.bags import Bags
from streaminfer.models.events import Field, Rejected, anew, bags_of, check
from streaminfer.models.model import Groups, Matrix, Posterior, Predictions, predicts
from streaminfer.spec import Spec
from streaminfer.variational.topics_posterior import TopicsPosterior


class CannotPredict(ValueError):
    """A model that has no predictions, or an interval that is none."""


class Read(NamedTuple):
    """The good rows as a matrix (n, fields), the others with their reasons, keys by their codes, and documents."""

    events: Matrix
    rejected: list[Rejected]
    labels: list[bytes]
    bags: Bags | None

    def only(self, which: Groups) -> Read:
        """Some of the good rows, by their numbers."""
        return self._replace(events=self.events[which])


def inputs_of(spec: Spec) -> tuple[Field, ...]:
    """What a prediction reads of a row, each with its place there; raises CannotPredict."""
    if not predicts(spec.model):
        raise CannotPredict(
            f"model.kind: {spec.kind} does not predict: its class has no `inputs`, which says what a new row must "
            "have; docs/own-models.md tells how a model predicts"
        )
    located = {each.name: each for each in spec.fields}
    return tuple(located[each.name] for each in spec.model.inputs)


def outputs_of(spec: Spec) -> tuple[str, ...]:
    """The names of the columns of predictions (n, k), if they have any."""
    return spec.model.outputs if predicts(spec.model) else ()


def read(fields: Sequence[Field], rows: Sequence[object]) -> Read:
    """Rows, checked by the fields."""
    fields, labels = anew(fields)
    events, rejected = check(fields, rows)
    return Read(events, rejected, labels, bags_of(fields))


def predicted(posterior: Posterior | TopicsPosterior, rows: Read, level: float) -> Predictions:
    """What a posterior says of the good rows, by name."""
    if not 0 < level < 1:
        raise CannotPredict(f"interval: must be a number between 0 and 1, such as 0.95 (got {level!r})")
    if isinstance(posterior, TopicsPosterior):
        return posterior.predict(bagged(rows.bags or Bags(), rows.events[:, 0].astype(np.intp)))
    found: Predictions = posterior.predict(rows.events, level)  # type: ignore[attr-defined]  # the model `Predicts`
    return found


def by_key(posteriors: Sequence[Posterior | TopicsPosterior], rows: Read, level: float) -> Predictions:
    """The same where the last column of the rows is the code of a key, each by the posterior of its key's label."""
    codes, inputs = rows.events[:, -1].astype(np.intp), rows._replace(events=rows.events[:, :-1])
    made: Predictions = {}
    for code in np.unique(codes).tolist():
        which = np.flatnonzero(codes == code)
        for name, values in predicted(posteriors[code], inputs.only(which), level).items():
            made.setdefault(name, np.empty((len(codes), *values.shape[1:])))[which] = values
    return made


def first(values: Any) -> Any:
    """What an array has of its first row: a number, or an array where it has several."""
    return float(values[0]) if values.ndim == 1 else values[0]
