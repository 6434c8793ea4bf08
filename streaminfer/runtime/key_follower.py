"""Some keys of a keyed posterior: one followed, or several read. Records of others are passed over by record keys."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import NamedTuple

from streaminfer.bus.protocol import Bus, OutOfRange, Partition, Record
from streaminfer.models.keys import label_of
from streaminfer.models.model import DomainError, Vector
from streaminfer.runtime import manifests, names
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.key_view import of_key
from streaminfer.runtime.patience import Teller
from streaminfer.runtime.pooling import model_of
from streaminfer.spec import Spec
from streaminfer.variational.forgetting import Clock
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import Older, WireError
from streaminfer.wire.snapshots import MANIFEST

log = logging.getLogger(__name__)


class Row(NamedTuple):
    """What a record says of a key."""

    version: int
    numbers: Vector


class ShardOfKeys:
    """Reads the posterior partition of a shard from its start, and keeps what it has of some keys, all of that shard.

    A key that nobody has met has no rows; its snapshot is what all keys start from.
    """

    def __init__(
        self, spec: Spec, bus: Bus, shard: int, labels: AbstractSet[bytes], schemas: Schemas = DECLARED
    ) -> None:
        self._spec, self._bus, self._schemas, self._labels = spec, bus, schemas, labels
        self._partition = Partition(names.topic(spec, "posterior"), shard)
        start = bus.starts(self._partition.topic)[self._partition.index]
        self._reader = bus.reader({self._partition: start})
        self._assembler = manifests.assembler(spec, schemas)
        self._teller = Teller(log)
        self._rows: dict[bytes, dict[int, Row]] = {}
        self._waiting: dict[key_records.Place, Row | None] = {}
        """Rows whose manifest has not come yet; None where one is gone."""
        self.manifest: Snapshot | None = None

    def of(self, label: bytes) -> Snapshot | None:
        """A key as of the newest manifest; None without one."""
        if self.manifest is None:
            return None
        rows = self._rows.get(label)
        if not rows:
            return replace(self.manifest, n_events=0, statistics=self._spec.model.empty(), clocks={})
        return _of_key(self._spec, self.manifest, rows)

    def catch_up(self) -> None:
        """Reads to the end of the topic as it is now."""
        end = self._bus.ends(self._partition.topic)[self._partition.index]
        while self._reader.position(self._partition) < end:
            for _ in self.poll(1.0):
                pass

    def poll(self, timeout: float) -> Iterator[None]:
        """Takes in what has come, and stops at each manifest after which a key is another."""
        try:
            polled = self._reader.poll(timeout)
        except OutOfRange as error:
            if error.position > error.end:
                raise
            self._reader.seek(error.partition, error.start)
            return
        for part in polled.slices:
            for record in part.records:
                if self._add(record):
                    yield

    def close(self) -> None:
        self._reader.close()

    def _add(self, record: Record) -> bool:
        """Whether it is a manifest after which a key is another."""
        key = record.key or b""
        try:
            if key == MANIFEST:
                return self._complete(record)
            if key.split(b"/", 2)[-1] in self._labels:
                place = key_records.place_of(key)
                if place is not None and place.label in self._labels:
                    self._take(place, value_of(record))
        except Older as error:
            self._teller.tell(f"{record.partition} offset {record.offset} is ignored: {error}")
        except (WireError, DomainError) as error:
            self._teller.tell(f"{record.partition} offset {record.offset} cannot be read: {error}")
        return False

    def _take(self, place: key_records.Place, value: bytes | None) -> None:
        if value is None:
            self._waiting[place] = None
            return
        versions, numbers = key_records.decode([place.label], [value], self._spec.model.size, self._schemas)
        self._assembler.saw_row(versions[0])
        self._waiting[place] = Row(versions[0], numbers[0])

    def _complete(self, record: Record) -> bool:
        manifest = manifests.assembled(self._spec, self._assembler, record)
        if manifest is None:
            return False
        model_of(self._spec, manifest)
        self.manifest = manifest
        changed, self._waiting = self._waiting, {}
        for (label, clock), row in changed.items():
            rows = self._rows.setdefault(label, {})
            if row is None:
                rows.pop(clock, None)
            else:
                rows[clock] = row
        return bool(changed)


class KeyFollower:
    """Follows one key."""

    def __init__(self, spec: Spec, bus: Bus, key: str, schemas: Schemas = DECLARED) -> None:
        self._spec, self._label = spec, label_of(key)
        self._shard = ShardOfKeys(spec, bus, names.shard_of(spec, self._label), {self._label}, schemas)

    @property
    def snapshot(self) -> Snapshot | None:
        """The key as of the newest manifest; one that is not there is None, or what all keys start from is fitted."""
        found = self._shard.of(self._label)
        pooled = self._spec.key is not None and self._spec.key.pooled
        return found if found is not None and (found.n_events > 0 or pooled) else None

    def catch_up(self) -> Snapshot | None:
        """Reads to the end of the topic as it is now."""
        self._shard.catch_up()
        return self.snapshot

    def poll(self, timeout: float) -> list[Snapshot]:
        """Snapshots in which the key has changed since the last call, oldest first."""
        found = [self._readable() for _ in self._shard.poll(timeout)]
        return [snapshot for snapshot in found if snapshot is not None]

    def _readable(self) -> Snapshot | None:
        try:
            return self.snapshot
        except (WireError, DomainError) as error:
            log.error("%s: the key %r cannot be read: %s", self._spec.name, self._label[:40], error)
            return None

    def close(self) -> None:
        self._shard.close()


class KeyedSnapshots:
    """Some keys of a posterior as they are now, from one reading of their shards; memory is that of these keys."""

    def __init__(self, spec: Spec, bus: Bus, labels: AbstractSet[bytes], schemas: Schemas = DECLARED) -> None:
        self._spec = spec
        self._shards: dict[int, ShardOfKeys] = {}
        for index in range(spec.shards):
            own = {label for label in labels if names.shard_of(spec, label) == index}
            self._shards[index] = ShardOfKeys(spec, bus, index, own, schemas)
            try:
                self._shards[index].catch_up()
            finally:
                self._shards[index].close()

    @property
    def are_there(self) -> bool:
        """Whether every shard has a snapshot."""
        return all(shard.manifest is not None for shard in self._shards.values())

    def of(self, label: bytes) -> Snapshot:
        """One of the keys; without events it is what all keys start from."""
        found = self._shards[names.shard_of(self._spec, label)].of(label)
        if found is None:
            raise LookupError(f"{self._spec.name}: its shard of {label!r} has no snapshot yet")
        return found


def _of_key(spec: Spec, shard: Snapshot, rows: Mapping[int, Row]) -> Snapshot:
    clocks = {
        clock: Clock(row.numbers[key_records.NUMBERS :], float(row.numbers[2]), float(row.numbers[3]))
        for clock, row in sorted(rows.items())
    }
    n_events = int(sum(row.numbers[0] for row in rows.values()))
    return of_key(spec, shard, clocks, n_events, max(row.version for row in rows.values()))
