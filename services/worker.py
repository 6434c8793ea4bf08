"""svb-worker and svi-worker: a share of the data partitions to increments, by the spec's method of inference."""

from __future__ import annotations

import time
import uuid
from typing import Final

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names
from streaminfer.runtime.role import Role
from streaminfer.runtime.service import Service
from streaminfer.runtime.telemetry import WorkerMetrics
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas


def build(spec: Spec, bus: Bus, registry: CollectorRegistry, instance: str | None, schemas: Schemas) -> Service:
    """A worker whose identity is new with every process."""
    from streaminfer.runtime.learning.worker import Worker

    metrics = WorkerMetrics(registry, spec.name)
    return Worker(spec, bus, time.monotonic, uuid.uuid4().hex, metrics, instance, schemas)


def _role(name: str) -> Role:
    return Role(
        name,
        "worker",
        build,
        needed=lambda spec: spec.sampling is None and names.worker_service(spec) == name,
        replicas=lambda _spec, workers: workers,
        group=names.worker_group,
    )


SVB: Final = _role("svb-worker")
SVI: Final = _role("svi-worker")
