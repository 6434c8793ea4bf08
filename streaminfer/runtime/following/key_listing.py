"""Which keys a keyed posterior has: a page of them, in order, without holding the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from streaminfer.bus.protocol import Bus, Record
from streaminfer.runtime.following.rows import Row, Saw, SomeRows
from streaminfer.runtime.following.shards import Shards
from streaminfer.spec import Spec
from streaminfer.wire.avro import DECLARED, Schemas

ROOM = 1000
"""Keys that are held beyond those of a page, as some that come later may be gone again."""


class KeySummary(NamedTuple):
    """One key of a listing."""

    key: str
    version: int
    n_events: int
    n_effective: float


class PageRows(SomeRows):
    """The smallest keys after one; if larger ones were let go, they are all above `bound`."""

    def __init__(self, spec: Spec, after: bytes, limit: int, schemas: Schemas = DECLARED) -> None:
        super().__init__(spec, (), schemas)
        self._after, self._most = after, limit + ROOM
        self.bound: bytes | None = None
        self._met: set[bytes] = set()
        """Labels of rows, held or waiting."""

    def wants(self, key: bytes) -> bool:
        label = key.split(b"/", 2)[-1]
        return label > self._after and (self.bound is None or label <= self.bound)

    def take(self, record: Record, saw: Saw) -> None:
        super().take(record, saw)
        self._met.add((record.key or b"").split(b"/", 2)[-1])
        if len(self._met) > 2 * self._most:
            self._let_go()

    def _let_go(self) -> None:
        labels = sorted({*self.held, *(place.label for place in self.waiting)})
        self._met = set(labels[: self._most])
        if len(labels) > self._most:
            self.bound = labels[self._most - 1]
            self.held = {label: rows for label, rows in self.held.items() if label in self._met}
            self.waiting = {place: record for place, record in self.waiting.items() if place.label in self._met}


def page(spec: Spec, bus: Bus, after: bytes, limit: int, schemas: Schemas = DECLARED) -> list[KeySummary]:
    """The first `limit` keys after one. Raises OtherSpec if the posterior is another spec's."""
    found: list[KeySummary] = []
    bound: bytes | None = after
    while bound is not None and len(found) < limit:
        shards = [PageRows(spec, bound, limit, schemas) for _ in range(spec.shards)]
        if not _read(spec, bus, shards, schemas):
            return []
        bound = min((rows.bound for rows in shards if rows.bound is not None), default=None)
        held = {
            label: rows for shard in shards for label, rows in shard.held.items() if bound is None or label <= bound
        }
        found += [summary(spec, label, held[label]) for label in sorted(held)]
    return found[:limit]


def _read(spec: Spec, bus: Bus, rows: Sequence[PageRows], schemas: Schemas) -> bool:
    """Reads all shards to their ends as they are now, and whether each has a snapshot."""
    shards = Shards(spec, bus, schemas, rows)
    try:
        return shards.catch_up() is not None
    finally:
        shards.close()


def summary(spec: Spec, label: bytes, rows: Mapping[int, Row]) -> KeySummary:
    """A key by its rows, one for each clock."""
    n_events = int(sum(row.numbers[0] for row in rows.values()))
    weight = float(sum(row.numbers[2] for row in rows.values()))
    weight = weight if spec.inference.forget is not None else float(n_events)
    return KeySummary(label.decode(), max(row.version for row in rows.values()), n_events, weight)
