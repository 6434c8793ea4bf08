"""Follows the posterior topic: the newest complete snapshot, for any reader."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from streaminfer.bus.protocol import Bus, OutOfRange, Partition, Record
from streaminfer.models.model import DomainError
from streaminfer.runtime import names
from streaminfer.runtime.following import beginning, manifests
from streaminfer.runtime.following.rows import NoRows, Rows
from streaminfer.runtime.intact import is_removal
from streaminfer.runtime.owning.obstacles import InTheWay
from streaminfer.runtime.running.patience import Teller
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import Older, UnknownSchema, WireError
from streaminfer.wire.key_records import PREFIX

log = logging.getLogger(__name__)

MOST_IN_THE_WAY: Final = 100
TRIES: Final = 3
"""How often a reader goes to the end of a log that is compacted meanwhile."""


class Follower:
    """Reads one shard's posterior partition; `snapshot` is the newest whole one so far, and `rows` keeps its rows.

    Without rows nothing here grows with keys or words.
    """

    def __init__(
        self, spec: Spec, bus: Bus, shard: int = 0, schemas: Schemas = DECLARED, rows: Rows | None = None
    ) -> None:
        self._spec, self._bus, self._teller = spec, bus, Teller(log)
        self.rows: Rows = NoRows(spec, schemas) if rows is None else rows
        self._partition = Partition(names.topic(spec, "posterior"), shard)
        start = bus.starts(self._partition.topic)[shard]
        begin = start if self.rows.from_start else beginning.newest_manifest(spec, bus, self._partition, schemas)
        self._reader = bus.reader({self._partition: begin})
        self._assembler = manifests.assembler(spec, schemas)
        self.snapshot: Snapshot | None = None
        """None, too, while rows of the newest one are missing."""
        self.unreadable: Record | None = None
        """The newest record that should belong to a snapshot and after which no whole one has come."""
        self.in_the_way: list[InTheWay] = []
        """Such records since the newest whole one, the last MOST_IN_THE_WAY."""
        self.unknown: InTheWay | None = None
        """One of them that is in a schema that this version does not know."""

    @property
    def position(self) -> int:
        return self._reader.position(self._partition)

    def catch_up(self) -> Snapshot | None:
        """Reads to the end of the topic as it is now; the newest snapshot there.

        If rows of it are missing it reads on, as newer ones of them have come since.
        """
        for _ in range(TRIES):
            end = self._bus.ends(self._partition.topic)[self._partition.index]
            while self.position < end:
                self.poll(1.0)
            if self.snapshot is not None or self._assembler.newest == 0:
                break
        return self.snapshot

    def poll(self, timeout: float) -> list[Snapshot]:
        """Snapshots that have come since the last call, oldest first; rows are those of the last."""
        return list(self.follow(timeout))

    def follow(self, timeout: float) -> Iterator[Snapshot]:
        """The same one by one: at each of them the rows are its own. To be read to its end."""
        try:
            polled = self._reader.poll(timeout)
        except OutOfRange as error:
            if error.position > error.end:
                raise
            self._reader.seek(error.partition, error.start)
            return
        for part in polled.slices:
            for record in part.records:
                if record.key is not None and record.key.startswith(PREFIX):
                    if self.rows.wants(record.key):
                        self._take(record)
                elif (found := self._add(record)) is not None and self._show(found):
                    yield found

    def _take(self, record: Record) -> None:
        """A row: one of very many."""
        try:
            self.rows.take(record, self._assembler.saw_row)
        except Older as error:
            self._teller.tell(f"{record.partition} offset {record.offset} is ignored: {error}")
        except WireError as error:
            self._teller.tell(f"{record.partition} offset {record.offset} {self.rows.junk}: {error}")

    def _show(self, found: Snapshot) -> bool:
        """Shows a snapshot with its rows, and whether they are all here."""
        whole = self.rows.show(found)
        self.snapshot = found if whole else None
        if whole:
            self._forget()
        return whole

    def _add(self, record: Record) -> Snapshot | None:
        """The snapshot that a record completes, with statistics that give a proper posterior."""
        if is_removal(record):
            return None
        before, self.unreadable = self.unreadable, record
        try:
            snapshot = manifests.assembled(self._spec, self._assembler, record)
            if snapshot is not None:
                manifests.check_snapshot(self._spec, snapshot)
        except Older as error:
            self._teller.tell(f"{record.partition} offset {record.offset} is ignored: {error}")
            self.unreadable = before
            return None
        except (WireError, DomainError) as error:
            self._teller.tell(f"{record.partition} offset {record.offset} is not a snapshot: {error}")
            self._keep(InTheWay(record, str(error)))
            if isinstance(error, UnknownSchema):
                self.unknown = self.in_the_way[-1]
            return None
        if snapshot is None:
            self._keep(InTheWay(record, "a part of a snapshot that is not complete"))
        return snapshot

    def _keep(self, found: InTheWay) -> None:
        self.in_the_way = [*self.in_the_way[1 - MOST_IN_THE_WAY :], found]

    def _forget(self) -> None:
        self.unreadable, self.unknown, self.in_the_way = None, None, []

    def close(self) -> None:
        self._reader.close()
