"""svb-worker: turns a share of the data partitions into increments by streaming variational Bayes."""

from __future__ import annotations

import time
import uuid

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.runtime.telemetry import WorkerMetrics
from streaminfer.runtime.worker import Worker
from streaminfer.spec import Spec


def build(spec: Spec, bus: Bus, registry: CollectorRegistry, instance: str | None) -> Worker:
    """A worker whose identity is new with every process."""
    return Worker(spec, bus, time.monotonic, uuid.uuid4().hex, WorkerMetrics(registry, spec.name), instance)
