"""The monitor as a process that answers over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.http.answering.job_metrics import JobMetrics
from streaminfer.http.server import Server, serve
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.runtime.monitoring.pulse import instance_of
from streaminfer.runtime.role import Role
from streaminfer.runtime.running import process
from streaminfer.runtime.running.health import Health
from streaminfer.runtime.service import Service
from streaminfer.runtime.telemetry import UpMetrics, http_port
from streaminfer.services import monitor
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas


def run(role: Role, spec: Spec, bus_url: str, instance: str | None, http: str, also: Sequence[Spec] = ()) -> None:
    """Runs the monitor of one or more specs until it is told to stop, and serves its memories."""
    memories = {each.name: Memory(each, instance_of(instance)) for each in (spec, *also)}
    port = 0

    @contextmanager
    def serving(health: Health, host: str, wanted: int, token: str | None) -> Iterator[Server]:
        nonlocal port
        health.registry.register(JobMetrics(list(memories.values())))
        job = JobHealth(health, list(memories.values()))
        with serve(list(memories.values()), job, host, wanted, token) as server:
            port = server.server_port
            yield server

    def build(spec: Spec, bus: Bus, registry: CollectorRegistry, instance: str | None, schemas: Schemas) -> Service:
        http_port(registry, spec.name, port)
        return monitor.build(spec, bus, registry, instance, schemas, memories[spec.name])

    process.run(replace(role, build=build), spec, bus_url, instance, http, also, serving)


class JobHealth(Health):
    """Whether all of the job is ready: the monitor itself, and if there is a supervisor, what it says."""

    def __init__(self, own: Health, memories: Sequence[Memory]) -> None:
        super().__init__(own.registry)
        self._own, self._memories = own, memories

    def healthz(self) -> tuple[int, str]:
        return self._own.healthz()

    def readyz(self) -> tuple[int, str]:
        supervisors = [(memory.services.newest(UpMetrics.role), memory.now()) for memory in self._memories]
        if any(found is not None and found.state(now) != "healthy" for found, now in supervisors):
            return 503, "not ready\n"
        return self._own.readyz()
