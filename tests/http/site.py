"""A monitor that serves, beside a real worker and master, all on a simulated bus."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Output
from streaminfer.http.guarding.limits import Limits
from streaminfer.http.server import Server, serve
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.runtime.monitoring.memory.remembering import Remembering
from streaminfer.runtime.monitoring.monitor import Monitor
from streaminfer.runtime.running.health import Health
from streaminfer.runtime.service import Service
from streaminfer.runtime.telemetry import MonitorMetrics
from streaminfer.spec import parse_spec
from tests.runtime.keyed_rig import KeyedRig, keyed_spec
from tests.runtime.monitoring.nothing import Nothing
from tests.runtime.rig import Rig, poisson

SCRIPT = "<script>alert(1)</script>"
KEYS = ("berlin", "a/b", "../../etc/passwd", SCRIPT, "münchen")


class Got(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "")


class Job(NamedTuple):
    """Services at work."""

    rig: Rig
    services: tuple[Service, ...]

    def run(self) -> Job:
        self.rig.run(*self.services)
        return self


class Site:
    """What a test asks."""

    def __init__(self, job: Job, memory: Memory, monitor: Monitor, health: Health, server: Server) -> None:
        self.job, self.rig, self.memory, self.monitor = job, job.rig, memory, monitor
        self.health, self.server = health, server

    @property
    def port(self) -> int:
        return self.server.server_port

    @property
    def one(self) -> str:
        return f"/v1/posteriors/{self.rig.spec.name}"

    def watch(self, rounds: int = 4) -> None:
        """The monitor takes in what has come."""
        for _ in range(rounds):
            self.monitor.step(0.0)
            self.rig.clock.advance(1.0)

    def add(self, *values: int) -> None:
        """More events, which the monitor sees."""
        self.rig.send(*values)
        self.job.run()
        self.watch()

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Got:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    def post(self, path: str, document: Any) -> Got:
        return self.ask(path, "POST", json.dumps(document).encode(), {"Content-Type": "application/json"})

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


@contextmanager
def site_of(job: Job, token: str | None = None, limits: Limits | None = None) -> Iterator[Site]:
    """Serves what is on the bus of a rig."""
    rig = job.rig
    memory, health = Memory(rig.spec, "monitor-0", rig.clock), Health(CollectorRegistry())
    health.beat(True)
    metrics = MonitorMetrics(health.registry, rig.spec.name)
    remembering = Remembering(rig.spec, rig.bus, memory, clock=rig.clock)
    monitor = Monitor(rig.spec, rig.bus, remembering, Nothing, metrics, "monitor-0", clock=rig.clock, wall=rig.clock)
    with serve([memory], health, "127.0.0.1", 0, token, limits) as server:
        site = Site(job, memory, monitor, health, server)
        site.watch()
        yield site
        monitor.close()


def counted() -> Job:
    """A posterior of a rate, with two dead letters."""
    rig = Rig(poisson())
    rig.send(*range(8), SCRIPT.encode(), json.dumps({"k": SCRIPT}).encode(), 3, 4)
    return Job(rig, (rig.worker(), rig.master())).run()


def wide() -> Job:
    """A posterior of 30 means and 900 covariances."""
    fields = [f"f{i}" for i in range(30)]
    inference = {"minibatch": 4, "linger_ms": 0, "snapshot_ms": 1}
    model = {"kind": "gaussian", "fields": fields}
    rig = Rig(parse_spec({"name": "wide", "data": {"partitions": 1}, "model": model, "inference": inference}))
    for i in range(8):
        event = {field: float((i * j) % 7) for j, field in enumerate(fields)}
        rig.bus.publish([Output(rig.topic("events"), json.dumps(event).encode(), partition=0)])
    return Job(rig, (rig.worker(), rig.master())).run()


def by_city() -> Job:
    """A posterior for each of some keys, the i-th with i + 1 events."""
    rig = KeyedRig(keyed_spec(partitions=1))
    rig.send_events([(0, 0, {"k": i, "city": key}) for i, key in enumerate(KEYS) for _ in range(i + 1)])
    rig.fill()
    return Job(rig, (rig.worker(), rig.master())).run()
