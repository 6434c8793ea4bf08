"""master: folds increments, or pools draws, into the posterior and publishes its snapshots."""

from __future__ import annotations

import time
from typing import Final

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names
from streaminfer.runtime.role import Role
from streaminfer.runtime.service import Service
from streaminfer.runtime.supervising.idle import IdleMark
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of
from streaminfer.wire.avro import Schemas


def build(spec: Spec, bus: Bus, registry: CollectorRegistry, instance: str | None, schemas: Schemas) -> Service:
    """A master that stands by until a shard is its own: it folds increments, or pools draws."""
    metrics = MasterMetrics(registry, spec.name)
    if kind_of(spec).folding is not None:
        from streaminfer.runtime.folding.master import Master

        return Master(spec, bus, time.monotonic, metrics, instance, schemas=schemas)
    from streaminfer.runtime.pooling.master import PoolingMaster

    return PoolingMaster(spec, bus, time.monotonic, metrics, instance, schemas=schemas)


ROLE: Final = Role(
    "master",
    "master",
    build,
    needed=lambda spec: not names.combines(spec),
    replicas=lambda spec, _workers: spec.shards,
    group=names.master_group,
    writer=names.master_writers,
    idle=IdleMark,
)
