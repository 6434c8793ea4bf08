"""What a follower keeps of the rows of its shard: none, all, or those of some labels. They wait for their manifest."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, TypeVar

from streaminfer.bus.protocol import Record
from streaminfer.models.model import Vector
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.running.patience import Teller
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.arena import Arena
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.key_records import Decoded, RowPlace

log = logging.getLogger(__name__)

PORTION: Final = 10_000
"""Records that are decoded at once while there is no whole snapshot to keep apart from them."""

T = TypeVar("T")
Saw = Callable[[int], None]
"""Hears the version of a row; raises Older."""


def decode(spec: Spec, labels: Sequence[bytes], values: Sequence[bytes], schemas: Schemas = DECLARED) -> Decoded:
    """Rows of keys or words; raises WireError if one cannot be read, or gives no posterior."""
    kind = kind_of(spec)
    found = key_records.decode(labels, values, kind.row_size(spec), schemas)
    if not kind.proper(spec, found.numbers[:, key_records.NUMBERS :]):
        raise BadValue(f"a {kind.row} has statistics that give no posterior")
    return found


def readable(
    run: Sequence[T], read: Callable[[Sequence[T]], Decoded], bad: Callable[[T, WireError], None]
) -> Iterator[tuple[Sequence[T], Decoded]]:
    """Rows with what they say, in their order: all at once; if one cannot be read, by halves.

    `bad` hears of each that cannot be read.
    """
    if not run:
        return
    try:
        found = read(run)
    except WireError as error:
        if len(run) == 1:
            bad(run[0], error)
            return
        middle = len(run) // 2
        yield from readable(run[:middle], read, bad)
        yield from readable(run[middle:], read, bad)
        return
    yield run, found


class Rows(Protocol):
    """What a follower does with the rows of its shard."""

    from_start: bool
    """Whether every row that the log has is needed; else a follower begins at the newest manifest."""
    junk: str
    """What is said of a record that stands in the place of a row and is not one."""

    @property
    def arena(self) -> Arena | None:
        """All rows, if all are kept."""

    def wants(self, key: bytes) -> bool:
        """Whether the row of a record key is to be taken."""

    def take(self, record: Record, saw: Saw) -> None:
        """Keeps a row until its manifest comes. Raises WireError if it is not one: junk takes no row away."""

    def show(self, manifest: Snapshot) -> bool:
        """Takes in the rows that have waited for a manifest, and whether all of the snapshot are here."""


class NoRows:
    """Only how new rows are counts: an older manifest is not theirs."""

    from_start, junk, arena = False, "cannot be read", None

    def __init__(self, spec: Spec, schemas: Schemas = DECLARED) -> None:
        self._versions = key_records.Versions(kind_of(spec).row_size(spec), schemas)

    def wants(self, key: bytes) -> bool:  # noqa: ARG002 (all say how new they are)
        return True

    def take(self, record: Record, saw: Saw) -> None:
        with suppress(WireError):
            version = self._versions.of(record.key, value_of(record))
            if version:
                saw(version)

    def show(self, manifest: Snapshot) -> bool:  # noqa: ARG002 (there is nothing to show)
        return True


class AllRows:
    """All rows in an arena, which is that of the newest whole snapshot.

    A log that is compacted while it is read can lack rows of an older snapshot, as newer ones of them are further on.
    The manifest tells (see `words.Head`): then nothing is shown until they are all there.
    """

    from_start = True

    def __init__(self, spec: Spec, schemas: Schemas = DECLARED) -> None:
        self._spec, self._schemas, self._kind = spec, schemas, kind_of(spec)
        self._versions = key_records.Versions(self._kind.row_size(spec), schemas)
        self._teller = Teller(log)
        self.junk = f"is not the row of a {self._kind.row}"
        self.arena = Arena(self._kind.row_size(spec))
        self._waiting: dict[bytes, Record] = {}
        """Rows without their manifest, by label. Those of one transaction, as all of a snapshot are in one."""
        self._whole = False

    def wants(self, key: bytes) -> bool:  # noqa: ARG002 (all of them)
        return True

    def take(self, record: Record, saw: Saw) -> None:
        place, value = row_place(record), value_of(record)
        if value is not None:
            version = self._versions.at(place, value)
            if version == 0 or place.clock != 0:
                raise BadValue("it has another form")
            saw(version)
        self._waiting[place.label] = record
        if not self._whole and len(self._waiting) >= PORTION:
            self._load()

    def show(self, manifest: Snapshot) -> bool:
        self._load()
        self._whole = self._kind.complete(self._spec, self.arena, manifest)
        return self._whole

    def _load(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for label in [label for label, row in waiting.items() if row.value is None and label in self.arena.rows]:
            self.arena.drop(label)
        self.arena.gone.clear()
        run = [(label, row) for label, row in waiting.items() if row.value is not None]
        for part, found in readable(run, self._decode, self._tell):
            self.arena.load([label for label, _ in part], [0] * len(part), found.numbers)

    def _decode(self, run: Sequence[tuple[bytes, Record]]) -> Decoded:
        return decode(self._spec, [label for label, _ in run], [row.value or b"" for _, row in run], self._schemas)

    def _tell(self, bad: tuple[bytes, Record], error: WireError) -> None:
        label, row = bad
        self._teller.tell(f"{row.partition}: the row of {label[:40]!r} cannot be read: {error}")


class Row(NamedTuple):
    """What a record says of a key: its version, and the numbers (NUMBERS + size) of one of its clocks."""

    version: int
    numbers: Vector


class SomeRows:
    """The rows of some labels; those of others are passed over by record keys."""

    from_start, junk, arena = True, "cannot be read", None

    def __init__(self, spec: Spec, labels: Container[bytes], schemas: Schemas = DECLARED) -> None:
        self._size, self._labels, self._schemas = kind_of(spec).row_size(spec), labels, schemas
        self._versions, self._teller = key_records.Versions(self._size, schemas), Teller(log)
        self.waiting: dict[RowPlace, Record] = {}
        self.held: dict[bytes, dict[int, Row]] = {}
        """By label and clock; a label without rows is not among them."""
        self.changed = False
        """Whether the newest manifest came with rows."""

    def wants(self, key: bytes) -> bool:
        return key.split(b"/", 2)[-1] in self._labels

    def take(self, record: Record, saw: Saw) -> None:
        place, value = row_place(record), value_of(record)
        if value is not None:
            version = self._versions.at(place, value)
            if version == 0:
                self._decode([(place, record)])  # which says why
            saw(version)
        self.waiting[place] = record

    def show(self, manifest: Snapshot) -> bool:  # noqa: ARG002 (a key is as it was last written)
        waiting, self.waiting, self.changed = self.waiting, {}, False
        for place in [place for place, record in waiting.items() if record.value is None]:
            self._drop(place)
            self.changed = True
        run = [(place, record) for place, record in waiting.items() if record.value is not None]
        for part, found in readable(run, self._decode, self._tell):
            for (place, _), version, numbers in zip(part, found.versions, found.numbers, strict=True):
                self.held.setdefault(place.label, {})[place.clock] = Row(version, numbers.copy())
            self.changed = True
        return True

    def _drop(self, place: RowPlace) -> None:
        rows = self.held.get(place.label, {})
        rows.pop(place.clock, None)
        if not rows:
            self.held.pop(place.label, None)

    def _decode(self, run: Sequence[tuple[RowPlace, Record]]) -> Decoded:
        labels, values = [place.label for place, _ in run], [record.value or b"" for _, record in run]
        return key_records.decode(labels, values, self._size, self._schemas)

    def _tell(self, bad: tuple[RowPlace, Record], error: WireError) -> None:
        _, record = bad
        self._teller.tell(f"{record.partition} offset {record.offset} {self.junk}: {error}")


def row_place(record: Record) -> RowPlace:
    """Which row a record is; raises WireError if it is none."""
    place = key_records.place_of(record.key)
    if place is None:
        raise BadValue("a row must have a key and a value")
    return place
