"""A service as a process of its own: signals, health paths, and an end when its supervisor is gone."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import FrameType
from typing import Final

from prometheus_client import CollectorRegistry

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Unavailable
from streaminfer.runtime import names
from streaminfer.runtime.following.comparing import Compared, compare
from streaminfer.runtime.logs import event
from streaminfer.runtime.monitoring.pulse import Beating, Pulse, instance_of
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.role import Role
from streaminfer.runtime.running import alive, loop
from streaminfer.runtime.running.health import Health, parse_address, serve
from streaminfer.runtime.running.patience import patiently
from streaminfer.runtime.running.several import Several, Together
from streaminfer.runtime.service import Service
from streaminfer.runtime.telemetry import about_process
from streaminfer.spec import Spec

log = logging.getLogger(__name__)

SUPERVISOR_VARIABLE: Final = "STREAMINFER_SUPERVISOR_PID"
GARBAGE: Final = 50_000
"""Objects between two searches for cycles. Records and their values come and go by the ten thousand and are none: at
Python's 700 the searches took a third of a worker's time."""


class StopSignal:
    """True once SIGTERM or SIGINT came, or the supervisor that started this process is no longer its parent."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._asked = False
        self._supervisor = int(environ.get(SUPERVISOR_VARIABLE, "0"))
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (the handler's signature)
        self._asked = True

    def __call__(self) -> bool:
        return self._asked or (self._supervisor != 0 and os.getppid() != self._supervisor)


Serving = Callable[[Health, str, int, str | None], AbstractContextManager[object]]
"""Serves what a service tells at a host and a port, with a token if one is needed."""


def run(
    role: Role,
    spec: Spec,
    bus_url: str,
    instance: str | None,
    http: str | None,
    also: Sequence[Spec] = (),
    serving: Serving = serve,
) -> None:
    """Runs one service in the foreground until it is told to stop; for further specs too, if there are any."""
    gc.set_threshold(GARBAGE)
    stopping = StopSignal()
    health = Health(CollectorRegistry())
    about_process(health.registry)
    with ExitStack() as stack:
        if http:
            stack.enter_context(serving(health, *parse_address(http)))
        bus = patiently(lambda: open_bus(bus_url), stopping, health.beat)
        if bus is None:
            return
        stack.enter_context(bus)

        told: list[Together] = []
        """What is told of the services."""

        def start() -> Service:
            made: list[tuple[Service, CollectorRegistry]] = []
            try:
                made.extend(_built(role, each, bus, instance) for each in (spec, *also))
            except BaseException:
                Several([service for service, _ in made]).close()
                raise
            while told:
                health.registry.unregister(told.pop())  # that of a service that was left
            told.append(Together([own for _, own in made]))
            health.registry.register(told[-1])
            for each in (spec, *also):
                _tell_joined(role, each, instance)
            return made[0][0] if not also else Several([each for each, _ in made])

        stack.enter_context(alive.listening(health.lives))
        try:
            loop.run(start, stopping, health.beat)
        finally:
            event(log, "stopped", f"{role.name} of {spec.name} has stopped", service=role.name, posterior=spec.name)


def _tell_joined(role: Role, spec: Spec, instance: str | None) -> None:
    group, name = role.group(spec), instance_of(instance)
    text = f"{role.name} {name} of {spec.name} has joined {group}"
    event(log, "joined", text, service=role.name, posterior=spec.name, instance=name, group=group)


def _built(role: Role, spec: Spec, bus: Bus, instance: str | None) -> tuple[Service, CollectorRegistry]:
    """The service of one spec, and its metrics."""
    compare(spec, bus, schemas.look_up(spec, bus, ["posterior"]))  # before anything is made, or a group joined
    ids = schemas.prepare(spec, bus, role.name)
    try:
        names.check_data_topic(spec, bus)
    except names.DataTopicMissing as error:
        raise Unavailable(str(error)) from error  # its owner may come up later than we
    own = CollectorRegistry()  # for this try: metrics of one that failed halfway would be in the way
    service = role.build(spec, bus, own, instance, ids)
    beating = Beating(service, Pulse(spec, bus, role.name, instance, own, ids))
    return Compared(beating, spec, bus, ids), own
