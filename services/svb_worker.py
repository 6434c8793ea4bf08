"""svb-worker: turns a share of the data partitions into increments by streaming variational Bayes."""

from __future__ import annotations

import time
import uuid

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.telemetry import WorkerMetrics
from streaminfer.runtime.worker import Worker
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas


def build(spec: Spec, bus: Bus, registry: CollectorRegistry, instance: str | None, schemas: Schemas) -> Worker:
    """A worker whose identity is new with every process."""
    metrics = WorkerMetrics(registry, spec.name)
    return Worker(spec, bus, time.monotonic, uuid.uuid4().hex, metrics, instance, schemas)
