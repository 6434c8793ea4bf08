"""sampler: runs Markov chains on segments of the data and publishes their draws."""

from __future__ import annotations

import os
import time
from typing import Final

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names
from streaminfer.runtime.role import Role
from streaminfer.runtime.service import Service
from streaminfer.runtime.telemetry import SamplerMetrics
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas


def build(spec: Spec, bus: Bus, registry: CollectorRegistry, instance: str | None, schemas: Schemas) -> Service:
    """A sampler that waits until a chain is its own."""
    from streaminfer.runtime.sampling.sampler import Sampler

    return Sampler(spec, bus, time.monotonic, SamplerMetrics(registry, spec.name), instance, schemas)


def _replicas(spec: Spec, _workers: int) -> int:
    """One for each chain, but no more than there are cores: a process runs several chains in turn."""
    units = 1 if spec.sampling is None else spec.sampling.n_units
    return min(units, len(os.sched_getaffinity(0)))


ROLE: Final = Role(
    "sampler",
    "sampler",
    build,
    needed=lambda spec: spec.sampling is not None,
    replicas=_replicas,
    group=names.sampler_group,
    writer=names.sampler_writers,
)
