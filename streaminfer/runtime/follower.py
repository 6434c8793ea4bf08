"""Follows the posterior topic: the newest complete snapshot, whoever asks."""

from __future__ import annotations

import logging
from typing import Final

from streaminfer.bus.protocol import Bus, OutOfRange, Partition, Poll, Record, Unreadable
from streaminfer.models.model import DomainError
from streaminfer.runtime import manifests, names
from streaminfer.runtime.patience import Teller
from streaminfer.runtime.stepping import InTheWay
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import Older, UnknownSchema, WireError
from streaminfer.wire.key_records import PREFIX, Versions
from streaminfer.wire.snapshots import MANIFEST, OtherSpec

log = logging.getLogger(__name__)

MOST_IN_THE_WAY: Final = 100
LARGEST: Final = 1 << 63


class Follower:
    """Reads one shard's posterior partition from its start; `snapshot` is the newest complete one so far.

    Of a keyed posterior it reads the manifests alone: nothing here grows with keys.
    """

    def __init__(self, spec: Spec, bus: Bus, shard: int = 0, schemas: Schemas = DECLARED) -> None:
        self._spec, self._bus, self._schemas = spec, bus, schemas
        self._teller = Teller(log)
        self._versions = Versions(manifests.row_size(spec), schemas)
        self._partition = Partition(names.topic(spec, "posterior"), shard)
        self._reader = bus.reader({self._partition: self._first(keyed=spec.by_rows)})
        self._assembler = manifests.assembler(spec, schemas)
        self.snapshot: Snapshot | None = None
        self.unreadable: Record | None = None
        """The newest record that should belong to a snapshot and after which no complete one has come."""
        self.in_the_way: list[InTheWay] = []
        """Such records since the newest complete one, the last MOST_IN_THE_WAY."""
        self.n_in_the_way = 0
        self.of_unknown_schema = False

    def _first(self, keyed: bool) -> int:
        """The log's start; among very many keys, the newest manifest, which is the last record of its commit."""
        start, end = (each(self._partition.topic)[self._partition.index] for each in (self._bus.starts, self._bus.ends))
        back = 16
        while keyed and end - back > start:
            found = self._manifest(end - back, end)
            if found is not None:
                return found
            back *= 64
        return start

    def _manifest(self, begin: int, end: int) -> int | None:
        """The offset of the newest manifest between two positions; None where one further back must be newer."""
        found, newest = None, 0
        with self._bus.reader({self._partition: begin}) as reader:
            while reader.position(self._partition) < end:
                for part in reader.poll(1.0).slices:
                    for record in part.records:
                        version = self._version(record)
                        if record.key == MANIFEST and version >= max(1, newest):
                            found = record.offset
                        elif version > newest:
                            found = None
                        newest = max(newest, version)
        return found

    @property
    def position(self) -> int:
        return self._reader.position(self._partition)

    def catch_up(self) -> Snapshot | None:
        """Reads to the end of the topic as it is now; the newest snapshot there."""
        end = self._bus.ends(self._partition.topic)[self._partition.index]
        while self.position < end:
            self.poll(1.0)
        return self.snapshot

    def poll(self, timeout: float) -> list[Snapshot]:
        """Snapshots that have come since the last call, oldest first."""
        try:
            polled = self._reader.poll(timeout)
        except OutOfRange as error:
            if error.position > error.end:
                raise
            self._reader.seek(error.partition, error.start)
            return []
        return self._assemble(polled)

    def _assemble(self, polled: Poll) -> list[Snapshot]:
        found = []
        for part in polled.slices:
            for record in part.records:
                if record.key is not None and record.key.startswith(PREFIX):
                    self._pass_row(record)
                    continue  # one of very many keys
                snapshot = self._add(record)
                if snapshot is not None:
                    found.append(snapshot)
                    self._forget()
        if found:
            self.snapshot = found[-1]
        return found

    def _version(self, record: Record) -> int:
        """That of a manifest or a row by itself; 0 of anything else."""
        if isinstance(record, Unreadable):
            return 0
        if record.key != MANIFEST:
            return self._versions.of(record.key, record.value)
        try:
            found = manifests.assembler(self._spec, self._schemas).add(record.value)
        except WireError:
            return 0
        except OtherSpec:
            return LARGEST  # who reads it says so
        return 0 if found is None else found.version

    def _pass_row(self, record: Record) -> None:
        """Keeps in mind how new the rows are: an older manifest is not theirs."""
        version = self._version(record)
        if version > self._assembler.newest:
            self._assembler.saw_row(version)

    def _add(self, record: Record) -> Snapshot | None:
        """The snapshot that a record completes, with statistics that give a proper posterior."""
        before, self.unreadable = self.unreadable, record
        try:
            snapshot = manifests.assembled(self._spec, self._assembler, record)
            if snapshot is not None:
                manifests.check_statistics(self._spec, snapshot)
        except Older as error:
            self._teller.tell(f"{record.partition} offset {record.offset} is ignored: {error}")
            self.unreadable = before
            return None
        except (WireError, DomainError) as error:
            self._teller.tell(f"{record.partition} offset {record.offset} is not a snapshot: {error}")
            self._keep(InTheWay(record, str(error)))
            self.of_unknown_schema = self.of_unknown_schema or isinstance(error, UnknownSchema)
            return None
        if snapshot is None:
            self._keep(InTheWay(record, "a part of a snapshot that is not complete"))
        return snapshot

    def _keep(self, found: InTheWay) -> None:
        self.n_in_the_way += 1
        self.in_the_way = [*self.in_the_way[1 - MOST_IN_THE_WAY :], found]

    def _forget(self) -> None:
        self.unreadable, self.in_the_way, self.n_in_the_way, self.of_unknown_schema = None, [], 0, False

    def close(self) -> None:
        self._reader.close()
