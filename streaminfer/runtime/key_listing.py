"""Which keys a keyed posterior has: a page of them, in order, without holding the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import NamedTuple

from streaminfer.bus.protocol import Bus, Partition, Record
from streaminfer.runtime import names
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.patience import Teller
from streaminfer.runtime.shards import Shards
from streaminfer.spec import Spec
from streaminfer.wire import key_records
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import WireError

log = logging.getLogger(__name__)

ROOM = 1000
"""Keys that are held beyond those of a page, as some that come later may be gone again."""


class KeySummary(NamedTuple):
    """One key of a listing."""

    key: str
    version: int
    n_events: int
    n_effective: float


class _Page:
    """The smallest keys after one; `bound` is there where larger ones were let go, and they are all above it."""

    def __init__(self, after: bytes, limit: int) -> None:
        self._after, self._most = after, limit + ROOM
        self.bound: bytes | None = None
        self.values: dict[bytes, dict[int, bytes]] = {}

    def add(self, place: key_records.Place, value: bytes | None) -> None:
        label = place.label
        if label <= self._after or (self.bound is not None and label > self.bound):
            return
        if value is not None:
            self.values.setdefault(label, {})[place.clock] = value
        elif label in self.values:
            self.values[label].pop(place.clock, None)
            if not self.values[label]:
                del self.values[label]
        if len(self.values) > 2 * self._most:
            kept = sorted(self.values)[: self._most]
            self.values = {each: self.values[each] for each in kept}
            self.bound = kept[-1]


def page(spec: Spec, bus: Bus, after: bytes, limit: int, schemas: Schemas = DECLARED) -> list[KeySummary]:
    """The first `limit` keys after one. Raises OtherSpec where the posterior is another spec's."""
    shards = Shards(spec, bus, schemas)
    try:
        if not shards.catch_up():
            return []
    finally:
        shards.close()
    found: list[KeySummary] = []
    teller = Teller(log)
    bound: bytes | None = after
    while bound is not None and len(found) < limit:
        part = _Page(bound, limit)
        for record in _records(spec, bus):
            try:
                place = key_records.place_of(record.key)
                if place is not None:
                    part.add(place, value_of(record))
            except WireError as error:
                teller.tell(f"{record.partition} offset {record.offset} cannot be read: {error}")
        found += _summaries(spec, part.values, schemas, teller)
        bound = part.bound
    return found[:limit]


def _summaries(
    spec: Spec, rows: dict[bytes, dict[int, bytes]], schemas: Schemas, teller: Teller
) -> Iterator[KeySummary]:
    for label in sorted(rows):
        try:
            yield _summary(spec, label, rows[label], schemas)
        except WireError as error:
            teller.tell(f"{spec.name}: the key {label[:40]!r} cannot be read: {error}")


def _summary(spec: Spec, label: bytes, values: dict[int, bytes], schemas: Schemas) -> KeySummary:
    versions, numbers = key_records.decode([label] * len(values), list(values.values()), spec.model.size, schemas)
    n_events = int(numbers[:, 0].sum())
    weight = float(numbers[:, 2].sum()) if spec.inference.forget is not None else float(n_events)
    return KeySummary(label.decode(), max(versions), n_events, weight)


def _records(spec: Spec, bus: Bus) -> Iterator[Record]:
    """Everything on the posterior topic up to its ends as they are now."""
    topic = names.topic(spec, "posterior")
    ends = bus.ends(topic)
    partitions = {Partition(topic, i): start for i, start in bus.starts(topic).items()}
    with bus.reader(partitions) as reader:
        while any(reader.position(each) < ends[each.index] for each in partitions):
            for part in reader.poll(1.0).slices:
                yield from part.records
