"""To which partition of the data topic a row goes: in turn, or by its key, so that all of a key are in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streaminfer.bus.partitioner import partition_of
from streaminfer.bus.protocol import Output
from streaminfer.models.events import Field, look_up
from streaminfer.models.keys import label_of
from streaminfer.spec import Spec
from streaminfer.wire.events.json_events import EventFormat
from streaminfer.wire.events.json_values import parse_json
from streaminfer.wire.events.runs import Run, only

_OTHERS: Final = -1


class Dealer:
    """Deals rows out. One without a good key is dealt in turn: the worker judges it."""

    def __init__(self, spec: Spec) -> None:
        self._field = spec.key_field

    def outputs(
        self, made: EventFormat, topic: str, partitions: int, count: int | None, batch: Sequence[Run]
    ) -> list[Output]:
        """The records of a batch. A record of one keyed event has its key.

        `count` rows came before it; None: those without a key go where the bus puts them.
        """
        if self._field is None:
            return _in_turn(made, topic, partitions, count, batch)
        shares: dict[int, list[Run]] = {}
        keys: dict[int, list[bytes | None]] = {}
        places: dict[bytes, int] = {}
        for run in batch:
            labels = self._labels(self._field, made, run)
            for label in set(labels):
                if label is not None and label not in places:
                    places[label] = partition_of(label, partitions)
            dealt = np.array([_OTHERS if label is None else places[label] for label in labels], dtype=np.intp)
            for share in np.unique(dealt).tolist():
                rows = np.flatnonzero(dealt == share)
                shares.setdefault(share, []).append(only(run, rows))
                keys.setdefault(share, []).extend(labels[row] for row in rows.tolist())
        others = shares.pop(_OTHERS, [])
        found = []
        for partition, runs in sorted(shares.items()):
            records = made.encode(*runs)
            named = keys[partition] if made.events_per_record == 1 else [None] * len(records)
            found += [Output(topic, value, key, partition) for value, key in zip(records, named, strict=True)]
        return found + _in_turn(made, topic, partitions, count, others)

    @staticmethod
    def _labels(field: Field, made: EventFormat, run: Run) -> list[bytes | None]:
        if not isinstance(run, np.ndarray):
            return [_label(field, row) for row in run]
        numbers, places = np.unique(run[:, list(made.columns).index(field.path[0])], return_inverse=True)
        labels = [_as_label(number) for number in numbers.tolist()]
        return [labels[place] for place in places.tolist()]


def _label(field: Field, row: bytes) -> bytes | None:
    """The key of a row; None if it has no good one."""
    try:
        event = parse_json(row)
    except (ValueError, RecursionError):
        return None
    return _as_label(look_up(event, field.path)[0]) if isinstance(event, dict) else None


def _as_label(value: object) -> bytes | None:
    try:
        return label_of(value)
    except (ValueError, TypeError):
        return None


def _in_turn(made: EventFormat, topic: str, partitions: int, count: int | None, batch: Sequence[Run]) -> list[Output]:
    """Around the partitions, from the one that the first row belongs to."""
    values = made.encode(*batch)
    if count is None:
        return [Output(topic, value) for value in values]
    first = count // made.events_per_record
    return [Output(topic, value, partition=(first + i) % partitions) for i, value in enumerate(values)]
