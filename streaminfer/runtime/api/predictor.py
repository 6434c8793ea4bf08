"""Rows of a file to predictions: each row has an answer, be it the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.checks import check
from streaminfer.models.events import Events, Field
from streaminfer.models.model import Predictions
from streaminfer.runtime.api import prediction
from streaminfer.runtime.api.snapshot import PosteriorSnapshot, plain
from streaminfer.spec import Spec
from streaminfer.variational import fold
from streaminfer.wire.events.json_values import parse_json


class Answer(NamedTuple):
    """What is predicted of a row, by name, or the error. `known`: whether the key of a keyed posterior has events."""

    row: int
    values: Mapping[str, NDArray[np.float64]]
    outputs: tuple[str, ...] = ()
    key: str | None = None
    known: bool = True
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The document that `predict --json` prints; numbers of named outputs are by their names."""
        if self.error is not None:
            return {"row": self.row, "error": self.error}
        key = {} if self.key is None else {"key": self.key, "known": self.known}
        return {"row": self.row, **key, **{name: self._named(values) for name, values in self.values.items()}}

    def _named(self, values: NDArray[np.float64]) -> Any:
        found = plain(values)
        return dict(zip(self.outputs, found, strict=True)) if self.outputs and values.ndim else found


class ByKey(Protocol):
    """Where the posteriors of keys are found; a key without events has what all keys start from."""

    def __getitem__(self, label: bytes) -> PosteriorSnapshot: ...


class Predictor:
    """Predicts by one posterior, or each row by the posterior of the key that it has as the last of `fields`."""

    def __init__(self, spec: Spec, fields: Sequence[Field], level: float, found: PosteriorSnapshot | ByKey) -> None:
        self.spec, self._fields, self._level = spec, fields, level
        self.snapshot = found if isinstance(found, PosteriorSnapshot) else None
        self._keyed = None if isinstance(found, PosteriorSnapshot) else found
        self.outputs = prediction.outputs_of(spec)
        some = self.snapshot or PosteriorSnapshot(spec, fold.start(spec.model, spec.fingerprint))
        none = check(prediction.inputs_of(spec), []).events
        self.columns = tuple(prediction.predicted(some.posterior, none, level))
        """The names of what is predicted."""

    @property
    def has_intervals(self) -> bool:
        return "lower" in self.columns

    def answers(self, texts: Sequence[bytes], first_row: int) -> list[Answer]:
        """One for each row, a JSON text, in their order."""
        return self._answered(*_parsed(texts, first_row), first_row)

    def of_rows(self, rows: Sequence[object]) -> list[Answer]:
        """The same for rows that are parsed already, numbered from 0."""
        return self._answered(rows, [None] * len(rows), 0)

    def _answered(self, rows: Sequence[object], answers: list[Answer | None], first_row: int) -> list[Answer]:
        """Fills in what is still to be answered."""
        numbers = [i for i, answer in enumerate(answers) if answer is None]
        checked = check(self._fields, [rows[i] for i in numbers])
        for each in checked.rejected:
            at = numbers[each.row]
            answers[at] = Answer(first_row + at, {}, error=each.reason)
        left = [i for i, answer in enumerate(answers) if answer is None]
        for at, answer in zip(left, self._good(checked.events, [first_row + i for i in left]), strict=True):
            answers[at] = answer
        return [answer for answer in answers if answer is not None]

    def _good(self, events: Events, numbers: Sequence[int]) -> Iterator[Answer]:
        if self._keyed is None:
            found = self.snapshot
            if found is None:
                raise TypeError("neither a snapshot nor snapshots by key")
            columns = prediction.predicted(found.posterior, events, self._level)
            yield from self._answers(columns, numbers, [found] * len(numbers))
            return
        keys = events.keys
        if keys is None:
            raise TypeError("none of the fields is the key")
        snapshots = [self._keyed[label] for label in keys.labels]
        columns = prediction.by_key([each.posterior for each in snapshots], events, keys.groups, self._level)
        yield from self._answers(columns, numbers, [snapshots[group] for group in keys.groups.tolist()])

    def _answers(
        self, columns: Predictions, numbers: Sequence[int], owners: Sequence[PosteriorSnapshot]
    ) -> Iterator[Answer]:
        for i, (row, owner) in enumerate(zip(numbers, owners, strict=True)):
            values = {name: column[i] for name, column in columns.items()}
            yield Answer(row, values, self.outputs, owner.key, owner.n_events > 0)


def labels_of(key: Field, texts: Sequence[bytes]) -> list[bytes]:
    """The different keys of rows that have one, in UTF-8."""
    rows, answers = _parsed(texts, 0)
    found = check([key], [row for row, bad in zip(rows, answers, strict=True) if bad is None]).events.keys
    return [] if found is None else list(found.labels)


def _parsed(texts: Sequence[bytes], first_row: int) -> tuple[list[object], list[Answer | None]]:
    """The rows, and the answer to those that are not JSON."""
    rows: list[object] = []
    answers: list[Answer | None] = []
    for i, text in enumerate(texts):
        try:
            rows.append(parse_json(text))
            answers.append(None)
        except (ValueError, RecursionError) as error:
            rows.append(None)
            answers.append(Answer(first_row + i, {}, error=f"not JSON: {error}"[:300]))
    return rows, answers
