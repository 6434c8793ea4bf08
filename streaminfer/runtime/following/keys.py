"""Some keys of a keyed posterior: one followed, or several read, each as a snapshot of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from streaminfer.bus.protocol import Bus
from streaminfer.models.keys import label_of
from streaminfer.models.model import DomainError
from streaminfer.runtime import names
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.following.rows import Row, SomeRows
from streaminfer.runtime.following.shards import Shards
from streaminfer.spec import Spec
from streaminfer.tables.one_key import of_key, unseen
from streaminfer.variational.forgetting.decay import Clock
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import WireError

log = logging.getLogger(__name__)


class KeyFollower:
    """Follows one key."""

    def __init__(self, spec: Spec, bus: Bus, key: str, schemas: Schemas = DECLARED) -> None:
        self._spec, self._label = spec, label_of(key)
        self._rows = SomeRows(spec, {self._label}, schemas)
        self._follower = Follower(spec, bus, names.shard_of(spec, self._label), schemas, self._rows)

    @property
    def snapshot(self) -> Snapshot | None:
        """The key as of the newest manifest. A key without events is None, or has a prior that is fitted to others."""
        manifest = self._follower.snapshot
        found = None if manifest is None else as_of(self._spec, manifest, self._rows.held.get(self._label))
        return found if found is not None and (found.n_events > 0 or self._spec.pooled) else None

    def catch_up(self) -> Snapshot | None:
        """Reads to the end of the topic as it is now."""
        self._follower.catch_up()
        return self.snapshot

    def poll(self, timeout: float) -> list[Snapshot]:
        """Snapshots in which the key has changed since the last call, oldest first."""
        found = [self._readable() for _ in self._follower.follow(timeout) if self._rows.changed]
        return [snapshot for snapshot in found if snapshot is not None]

    def _readable(self) -> Snapshot | None:
        try:
            return self.snapshot
        except (WireError, DomainError) as error:
            log.error("%s: the key %r cannot be read: %s", self._spec.name, self._label[:40], error)
            return None

    def close(self) -> None:
        self._follower.close()


class KeyedSnapshots:
    """Some keys of a posterior as they are now, from one reading of all shards; memory is that of these keys."""

    def __init__(self, spec: Spec, bus: Bus, labels: AbstractSet[bytes], schemas: Schemas = DECLARED) -> None:
        self._spec = spec
        self._rows = [SomeRows(spec, labels, schemas) for _ in range(spec.shards)]
        shards = Shards(spec, bus, schemas, self._rows)
        try:
            self.are_there = shards.catch_up() is not None
            """Whether every shard has a snapshot."""
            self._manifests = shards.snapshots
        finally:
            shards.close()

    def of(self, label: bytes) -> Snapshot:
        """One of the keys; without events it is what all keys start from."""
        if not self.are_there:
            raise LookupError(f"{self._spec.name}: its shard of {label!r} has no snapshot yet")
        shard = names.shard_of(self._spec, label)
        return as_of(self._spec, self._manifests[shard], self._rows[shard].held.get(label))


def as_of(spec: Spec, manifest: Snapshot, rows: Mapping[int, Row] | None) -> Snapshot:
    """A key as of a manifest of its shard; one without events is what all keys start from."""
    if not rows:
        return unseen(spec, manifest)
    clocks = {
        clock: Clock(row.numbers[key_records.NUMBERS :], float(row.numbers[2]), float(row.numbers[3]))
        for clock, row in sorted(rows.items())
    }
    n_events = int(sum(row.numbers[0] for row in rows.values()))
    return of_key(spec, manifest, clocks, n_events, max(row.version for row in rows.values()))
