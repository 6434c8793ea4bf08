"""Follows one key of a keyed posterior. The records of others are passed over by their record keys."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import NamedTuple

from streaminfer.bus.protocol import Bus, OutOfRange, Partition, Record
from streaminfer.models.keys import label_of
from streaminfer.models.model import DomainError, Vector
from streaminfer.runtime import manifests, names
from streaminfer.runtime.key_view import of_key
from streaminfer.runtime.pooling import model_of
from streaminfer.spec import Spec
from streaminfer.variational.forgetting import Clock
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.snapshots import MANIFEST, Assembler

log = logging.getLogger(__name__)


class Row(NamedTuple):
    """What a record says of a key."""

    version: int
    numbers: Vector


class KeyFollower:
    """Reads the posterior partition of a key's shard from its start."""

    def __init__(self, spec: Spec, bus: Bus, key: str, schemas: Schemas = DECLARED) -> None:
        self._spec, self._bus, self._schemas, self._label = spec, bus, schemas, label_of(key)
        self._ending = b"/" + self._label
        self._partition = Partition(names.topic(spec, "posterior"), names.shard_of(spec, self._label))
        start = bus.starts(self._partition.topic)[self._partition.index]
        self._reader = bus.reader({self._partition: start})
        self._assembler = Assembler(spec.fingerprint, spec.model.size, schemas)
        self._rows: dict[int, Row] = {}
        self._changed = False
        self._manifest: Snapshot | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """The key as of the newest manifest; one that is not there is None, or what all keys start from is fitted."""
        if self._manifest is None:
            return None
        if self._rows:
            return self._of_key(self._manifest)
        pooled = self._spec.key is not None and self._spec.key.pooled
        return replace(self._manifest, n_events=0) if pooled else None

    def catch_up(self) -> Snapshot | None:
        """Reads to the end of the topic as it is now."""
        end = self._bus.ends(self._partition.topic)[self._partition.index]
        while self._reader.position(self._partition) < end:
            self.poll(1.0)
        return self.snapshot

    def poll(self, timeout: float) -> list[Snapshot]:
        """Snapshots in which the key has changed since the last call, oldest first."""
        try:
            polled = self._reader.poll(timeout)
        except OutOfRange as error:
            if error.position > error.end:
                raise
            self._reader.seek(error.partition, error.start)
            return []
        found = []
        for part in polled.slices:
            for record in part.records:
                snapshot = self._add(record)
                if snapshot is not None:
                    found.append(snapshot)
        return found

    def close(self) -> None:
        self._reader.close()

    def _add(self, record: Record) -> Snapshot | None:
        key = record.key or b""
        try:
            if key == MANIFEST:
                return self._complete(record)
            if key.endswith(self._ending):
                place = key_records.place_of(key)
                if place is not None and place.label == self._label:
                    self._take(place.clock, record.value)
        except (WireError, DomainError) as error:
            log.error("%s offset %d cannot be read: %s", record.partition, record.offset, error)
        return None

    def _take(self, clock: int, value: bytes | None) -> None:
        self._changed = True
        if value is None:
            self._rows.pop(clock, None)
            return
        versions, numbers = key_records.decode([self._label], [value], self._spec.model.size, self._schemas)
        self._rows[clock] = Row(versions[0], numbers[0])

    def _complete(self, record: Record) -> Snapshot | None:
        """What a manifest publishes of the key: nothing where it has not changed."""
        manifest = manifests.assembled(self._spec, self._assembler, record)
        if manifest is not None:
            model_of(self._spec, manifest)
            self._manifest = manifest
        changed, self._changed = self._changed, False
        return self.snapshot if changed else None

    def _of_key(self, shard: Snapshot) -> Snapshot:
        clocks = {
            clock: Clock(row.numbers[key_records.NUMBERS :], float(row.numbers[2]), float(row.numbers[3]))
            for clock, row in sorted(self._rows.items())
        }
        n_events = int(sum(row.numbers[0] for row in self._rows.values()))
        return of_key(self._spec, shard, clocks, n_events, max(row.version for row in self._rows.values()))
