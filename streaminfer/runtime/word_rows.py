"""Follows the rows of words of one shard: what changed comes in, and is shown when its manifest has come."""

from __future__ import annotations

import logging

from streaminfer.bus.protocol import Bus, Poll, Record
from streaminfer.models.model import DomainError
from streaminfer.runtime.follower import Follower
from streaminfer.runtime.intact import value_of
from streaminfer.spec import Spec
from streaminfer.variational import words
from streaminfer.variational.arena import Arena
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.words import Block
from streaminfer.wire import key_records
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue, WireError

log = logging.getLogger(__name__)

TRIES = 3
PORTION = 10_000
"""Records that are decoded at once while there is no whole snapshot to keep apart from them."""


class WordRows(Follower):
    """As any follower, with the rows of the snapshot; `snapshot` is None while they are not all there.

    A log that is compacted while it is read can lack rows of an older snapshot, as newer ones of them are further on.
    The count of words in a manifest tells (see `words.Head`): then nothing is shown until they are all there.
    """

    def __init__(self, spec: Spec, bus: Bus, shard: int = 0, schemas: Schemas = DECLARED) -> None:
        if spec.words is None:
            raise TypeError(f"{spec.model.kind} is no model of words")
        self._words = spec.words
        self._size = words.row_size(spec.words, spec.inference)
        self.arena = Arena(self._size)
        self._waiting: dict[bytes, bytes] = {}
        """Rows without their manifest: values by word. Those of one transaction, as all of a snapshot are in one."""
        super().__init__(spec, bus, shard, schemas)

    def _first(self, keyed: bool) -> int:  # noqa: ARG002 (rows are needed from the first on)
        return self._bus.starts(self._partition.topic)[self._partition.index]

    def catch_up(self) -> Snapshot | None:
        """Reads to the end as it is now; again where rows are missing, as newer ones of them have come since."""
        for _ in range(TRIES):
            super().catch_up()
            if self.snapshot is not None:
                break
        return self.snapshot

    @property
    def block(self) -> Block | None:
        """The rows with their snapshot, where they are all there."""
        return None if self.snapshot is None else Block(self.arena, self.snapshot)

    def _assemble(self, polled: Poll) -> list[Snapshot]:
        found = []
        for part in polled.slices:
            for record in part.records:
                snapshot = self._taken(record)
                if snapshot is not None:
                    found.append(snapshot)
        return found

    def _taken(self, record: Record) -> Snapshot | None:
        """The snapshot that a record completes with all its rows."""
        try:
            place = key_records.place_of(record.key)
            if place is not None:
                self._hold(place.label, value_of(record))
                return None
        except WireError as error:
            self._lost(record, error)
            return None
        snapshot = self._add(record)
        if snapshot is None:
            return None
        try:
            self._load()
        except (WireError, DomainError) as error:
            self._lost(record, error)
            return None
        whole = words.complete(self._words, Block(self.arena, snapshot))
        self.snapshot = snapshot if whole else None
        self.unreadable = None if whole else record
        return self.snapshot

    def _hold(self, label: bytes, value: bytes | None) -> None:
        if value is None:
            raise BadValue("the row of a word is never removed")
        self._waiting[label] = value
        if self.snapshot is None and len(self._waiting) >= PORTION:
            self._load()

    def _load(self) -> None:
        labels, values = list(self._waiting), list(self._waiting.values())
        self._waiting = {}
        if labels:
            found = key_records.decode(labels, values, self._size, self._schemas).numbers
            if not words.proper_rows(self._words, found[:, key_records.NUMBERS :]):
                raise BadValue("a word has statistics that give no posterior")
            self.arena.load(labels, [0] * len(labels), found)

    def _lost(self, record: Record, error: Exception) -> None:
        self._teller.tell(f"{record.partition} offset {record.offset}: no rows of words before it can be read: {error}")
        self.snapshot, self.unreadable = None, record
