"""To which partition of the data topic a row goes: in turn, or by its key, so that all of a key are in one."""

from __future__ import annotations

from collections.abc import Sequence

from streaminfer.bus.partitioner import partition_of
from streaminfer.bus.protocol import Output
from streaminfer.models.events import look_up
from streaminfer.models.keys import label_of
from streaminfer.spec import Spec
from streaminfer.wire.events.json_events import EventFormat
from streaminfer.wire.events.json_values import parse_json


class Dealer:
    """Deals rows out, each the JSON text of an event. One without a good key is dealt in turn: the worker judges it."""

    def __init__(self, spec: Spec) -> None:
        self._field = spec.key_field

    def outputs(
        self, made: EventFormat, topic: str, partitions: int, count: int | None, batch: Sequence[bytes]
    ) -> list[Output]:
        """The records of a batch. A record of one keyed event has its key.

        `count` rows came before it; None: those without a key go where the bus puts them.
        """
        if self._field is None:
            return _in_turn(made, topic, partitions, count, batch)
        shares: dict[int, list[bytes]] = {}
        keys: dict[int, list[bytes]] = {}
        others = []
        for row in batch:
            key = self._key(row)
            if key is None:
                others.append(row)
            else:
                partition = partition_of(key, partitions)
                shares.setdefault(partition, []).append(row)
                keys.setdefault(partition, []).append(key)
        found = []
        for partition, rows in sorted(shares.items()):
            records = made.encode(rows)
            named = keys[partition] if made.events_per_record == 1 else [None] * len(records)
            found += [Output(topic, value, key, partition) for value, key in zip(records, named, strict=True)]
        return found + _in_turn(made, topic, partitions, count, others)

    def _key(self, row: bytes) -> bytes | None:
        if self._field is None:
            return None
        try:
            event = parse_json(row)
            return label_of(look_up(event, self._field.path)[0]) if isinstance(event, dict) else None
        except (ValueError, TypeError, RecursionError):
            return None


def _in_turn(made: EventFormat, topic: str, partitions: int, count: int | None, batch: Sequence[bytes]) -> list[Output]:
    """Around the partitions, from the one that the first row belongs to."""
    if count is None:
        return [Output(topic, value) for value in made.encode(batch)]
    first = count // made.events_per_record
    return [Output(topic, value, partition=(first + i) % partitions) for i, value in enumerate(made.encode(batch))]
