"""The master of a sampled posterior: whoever owns the partition of the posterior fixes segments and shows draws."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from streaminfer.bus.protocol import Bus, BusError, Poll
from streaminfer.runtime import names
from streaminfer.runtime.logs import event, told_assigned
from streaminfer.runtime.pooling.shard import SampledShard
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.spec import Spec
from streaminfer.wire.avro import DECLARED, Schemas

log = logging.getLogger(__name__)

READ_S: Final = 0.1
"""Seconds that a step waits for draws."""
LEAST_S: Final = 0.5
"""Seconds between two snapshots that nothing waits for: each has all retained draws."""
CHECK_S: Final = 2.0


class PoolingMaster:
    """One process's service. `clock` measures intervals, `wall` stamps snapshots."""

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
        if spec.sampling is None:
            raise ValueError(f"{spec.name} has no draws to pool: its method is {spec.inference.method}")
        self._spec, self._settings, self._bus, self._clock, self._wall = spec, spec.sampling, bus, clock, wall
        self._metrics, self._schemas = metrics, schemas
        self._member = bus.member(names.master_group(spec), [names.master_topic(spec)], instance)
        self._shard: SampledShard | None = None
        self._owns = self._restored = self._polled = False
        self._committed_at = self._checked_at = clock()

    @property
    def ready(self) -> bool:
        return self._polled and self._owns == self._restored

    def step(self, timeout: float) -> None:
        """Keep membership, take in draws, and commit what is due."""
        self._reassign(self._member.poll(0.0 if self._owns else timeout))
        if not self._owns:
            return
        if self._shard is None:
            self._shard = self._open_shard()
        if not self._restored:
            self._restored = self._shard.restored()
            if self._restored:
                self._tell_restored(self._shard)
            return
        self._shard.read(min(timeout, READ_S))
        if self._shard.look(self._now_ms()) or self._is_due(self._shard):
            self._commit(self._shard)
        if self._clock() - self._checked_at >= CHECK_S:
            self._checked_at = self._clock()
            self._shard.verify()

    def _tell_restored(self, shard: SampledShard) -> None:
        partition, version = str(shard.partition), shard.published.version
        event(log, "restored", f"restored {partition} at version {version}", partition=partition, version=version)
        event(log, "master of", f"master of {partition} from version {version}", partition=partition, version=version)

    def reset(self) -> None:
        """After an error of a commit nobody knows what the bus has: forget, fence again, restore."""
        self._metrics.errors.inc()
        self._metrics.left(0)
        self._leave()

    def close(self) -> None:
        try:
            if self._shard is not None and self._restored and self._shard.dirty:
                self._commit(self._shard)
        except BusError as error:
            log.warning("the last snapshot was not committed, it is made again: %s", error)
        self._leave()
        self._member.close()

    def _reassign(self, polled: Poll) -> None:
        self._polled = True
        if any(partition.index == 0 for partition in polled.revoked):
            self._owns = False
            self._metrics.left(0)
            self._leave()
        if any(partition.index == 0 for partition in polled.assigned):
            self._owns = True
        if polled.assigned or polled.revoked:
            told_assigned(log, self._member.assignment)

    def _leave(self) -> None:
        self._restored = False
        if self._shard is not None:
            self._shard.close()
            self._shard = None

    def _open_shard(self) -> SampledShard:
        return SampledShard(self._spec, self._settings, self._bus, self._clock, self._metrics, self._schemas)

    def _is_due(self, shard: SampledShard) -> bool:
        interval = max(LEAST_S, self._spec.inference.snapshot_ms / 1000)
        return shard.dirty and self._clock() - self._committed_at >= interval

    def _commit(self, shard: SampledShard) -> None:
        shard.commit(self._member, self._now_ms())
        self._committed_at = self._clock()

    def _now_ms(self) -> int:
        return int(self._wall() * 1000)
