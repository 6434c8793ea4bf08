"""The master: owns shards of the increments topic, folds what continues the frontier, publishes snapshots."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from streaminfer.bus.protocol import Bus, BusError, OutOfRange, Partition, Poll
from streaminfer.runtime import names
from streaminfer.runtime.folding.quiet import INTERVAL, Rest
from streaminfer.runtime.folding.shard import Shard
from streaminfer.runtime.logs import event, told_assigned
from streaminfer.runtime.running import alive
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of
from streaminfer.wire.avro import DECLARED, Schemas

log = logging.getLogger(__name__)

STEP_RECORDS = 100
"""Increments folded in one step: a step stays short, so leases, snapshots and a stop come in time."""
STEP_ROWS = 8
"""The same if each may have thousands of keys or words."""
CATCHING_UP_S = 0.4
"""Between snapshots while there is much to catch up with and no worker waits: each costs some milliseconds."""
CHECK_INTERVAL = 2.0
"""Seconds between looks for data partitions that were added, and for the last snapshot in the log."""


class Master:
    """One master process's service. `clock` measures intervals, `wall` stamps snapshots."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        clock: Callable[[], float],
        metrics: MasterMetrics,
        instance: str | None = None,
        wall: Callable[[], float] = time.time,
        schemas: Schemas = DECLARED,
    ) -> None:
        self._schemas = schemas
        self._spec, self._bus, self._clock, self._metrics, self._wall = spec, bus, clock, metrics, wall
        self._has_rows = kind_of(spec).has_rows
        self._member = bus.member(names.master_group(spec), [names.master_topic(spec)], instance)
        self._shards: dict[Partition, Shard] = {}
        self._restoring: dict[Partition, Shard] = {}
        self._owned: set[Partition] = set()
        self._rest = Rest(spec, bus, clock) if spec.waits_for_rest else None
        self._checked_at = clock()
        self._polled = False

    @property
    def ready(self) -> bool:
        return self._polled and self._owned == set(self._shards)

    def step(self, timeout: float) -> None:
        """Read, fold, and commit a snapshot when one is due."""
        self._read(timeout)
        for partition in self._owned - set(self._shards):
            self._take_over(partition)
        self._check()
        if self._rest is not None:
            self._turn(self._rest)
        for shard in self._shards.values():
            if self._due(shard):
                self._commit(shard)

    def reset(self) -> None:
        """After an error of a commit it is not known what the bus has: forget, fence again, restore."""
        self._metrics.errors.inc()
        for partition, shard in self._shards.items():
            self._member.pause(partition)
            self._metrics.left(partition.index)
            shard.close()
        self._shards.clear()
        self._leave_restoring()

    def close(self) -> None:
        """Publishes what is folded, then leaves the group."""
        self._leave_restoring()
        try:
            for shard in self._shards.values():
                if shard.dirty:
                    self._commit(shard)
                shard.close()
        except BusError as error:
            log.warning("the last snapshot was not committed, its increments will be folded again: %s", error)
        self._member.close()

    def _read(self, timeout: float) -> None:
        timeout = 0.0 if self._restoring else timeout
        if self._rest is not None and any(shard.restless for shard in self._shards.values()):
            timeout = min(timeout, INTERVAL)
        wait = min((self._wait(shard) for shard in self._shards.values() if shard.dirty), default=timeout)
        try:
            polled = self._member.poll(min(timeout, wait), STEP_ROWS if self._has_rows else STEP_RECORDS)
        except OutOfRange as error:
            self._skip_removed(error)
            return
        self._polled = True
        self._reassign(polled)  # first of all: after an error, no shard of another master may be left here
        for part in polled.slices:
            shard = self._shards.get(part.partition)
            if shard is None:
                continue
            # With rows one by one: any of them may make a snapshot due.
            for records in [(record,) for record in part.records] if self._has_rows else [part.records]:
                shard.take(records)
                alive.tell()
                if shard.full:
                    shard.passed(records[-1].offset + 1)
                    self._commit(shard)
            shard.passed(part.end)

    def _skip_removed(self, error: OutOfRange) -> None:
        """Increments that are gone unread are computed again: their workers find the frontier unmoved."""
        if error.position > error.end:
            raise Fatal(
                f"{error}: the posterior was folded from increments that the log no longer has. Was the topic "
                "deleted and created again? Use a new spec name for a new log."
            )
        n = error.start - error.position
        text = f"{error.partition}: {n} positions removed before they were read"
        event(log, "lost", text, logging.WARNING, partition=str(error.partition), positions=n)
        self._shards[error.partition].passed(error.start)
        self._shards[error.partition].urgent = True
        self._member.seek(error.partition, error.start)

    def _reassign(self, polled: Poll) -> None:
        for partition in polled.revoked:
            self._owned.discard(partition)
            self._metrics.left(partition.index)
            shard = self._shards.pop(partition, None) or self._restoring.pop(partition, None)
            if shard is not None:
                shard.close()
        self._owned.update(polled.assigned)
        if polled.assigned or polled.revoked:
            told_assigned(log, self._owned)

    def _take_over(self, partition: Partition) -> None:
        """Fence, restore, publish the frontier of new partitions, and read on from `read_to`."""
        shard = self._restoring.get(partition) or self._open_shard(partition)
        self._restoring[partition] = shard
        if not shard.restored():
            return
        shard.meet_partitions(self._wall())
        if shard.dirty:
            self._commit(shard)
        version, read_to = shard.published.version, shard.snapshot.read_to
        text = f"master of {partition} from version {version}, read to {read_to}"
        event(log, "master of", text, partition=str(partition), version=version, read_to=read_to)
        self._shards[partition] = self._restoring.pop(partition)
        shard.committed_at = self._clock()
        self._member.seek(partition, shard.snapshot.read_to)
        self._member.resume(partition)

    def _leave_restoring(self) -> None:
        for shard in self._restoring.values():
            shard.close()
        self._restoring.clear()

    def _commit(self, shard: Shard) -> None:
        shard.commit(self._member, int(self._wall() * 1000))
        shard.committed_at = self._clock()

    def _open_shard(self, partition: Partition) -> Shard:
        return Shard(self._spec, self._bus, partition.index, self._metrics, self._schemas)

    def _check(self) -> None:
        now = self._clock()
        if now - self._checked_at >= CHECK_INTERVAL:
            self._checked_at = now
            for shard in self._shards.values():
                shard.verify()
                shard.meet_partitions(self._wall())
                shard.tell_behind()

    def _turn(self, rest: Rest) -> None:
        """What is done once the data is at rest, and the next pass: in a snapshot before anything else is folded."""
        for shard in self._shards.values():
            ends = rest.look(shard.snapshot) if shard.restless else None
            if ends is not None:
                shard.rest(ends)
            if shard.turn() or ends is not None:
                self._commit(shard)

    def _due(self, shard: Shard) -> bool:
        if not shard.dirty:
            return False
        many = shard.unpublished_events >= self._spec.inference.snapshot_events
        return many or shard.full or self._wait(shard) <= 0

    def _wait(self, shard: Shard) -> float:
        """Seconds until the shard's next snapshot; one that workers wait for comes ten times sooner."""
        interval = self._spec.inference.snapshot_ms / 1000 / (10 if shard.urgent else 1)
        if self._spec.merges_minibatches and not shard.urgent and shard.far_behind:
            interval = max(interval, CATCHING_UP_S)
        return max(0.0, shard.committed_at + interval - self._clock())
