"""combiner: joins the draws of all subposteriors into one posterior and publishes its snapshots."""

from __future__ import annotations

import time
from typing import Final

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names
from streaminfer.runtime.role import Role
from streaminfer.runtime.service import Service
from streaminfer.runtime.supervising.idle import IdleMark
from streaminfer.runtime.telemetry import CombinerMetrics
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas


def build(spec: Spec, bus: Bus, registry: CollectorRegistry, instance: str | None, schemas: Schemas) -> Service:
    """A combiner that stands by until the posterior is its own."""
    from streaminfer.runtime.pooling.master import PoolingMaster

    metrics = CombinerMetrics(registry, spec.name)
    return PoolingMaster(spec, bus, time.monotonic, metrics, instance, schemas=schemas)


ROLE: Final = Role(
    "combiner",
    "combiner",
    build,
    needed=names.combines,
    replicas=lambda _spec, _workers: 1,
    group=names.master_group,
    writer=names.combiner_writer,
    idle=IdleMark,
)
