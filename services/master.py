"""master: folds increments into the posterior and publishes its snapshots."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.master import Master
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas


def build(spec: Spec, bus: Bus, registry: CollectorRegistry, instance: str | None, schemas: Schemas) -> Master:
    """A master that stands by until a shard is its own."""
    return Master(spec, bus, time.monotonic, MasterMetrics(registry, spec.name), instance, schemas=schemas)
