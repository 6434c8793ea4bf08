"""Signs of life of a process: a beat to the topic `health` every few seconds, between two steps of its service.

A beat says that a step, or a piece of one, was finished. A process that hangs, or whose bus is away, falls silent.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus, BusError, Output
from streaminfer.runtime import names
from streaminfer.runtime.running import alive
from streaminfer.runtime.running.patience import Teller
from streaminfer.runtime.service import Service
from streaminfer.spec import Spec
from streaminfer.wire import beats
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.beats import Beat
from streaminfer.wire.errors import WireError

log = logging.getLogger(__name__)

EVERY: Final = 5.0
"""Seconds between two beats."""
AFTER_A_FAILURE: Final = 60.0
"""Seconds: whoever waits for a bus again and again in order to beat has no time for its work."""
SILENT_MS: Final = 15_000
"""Without a beat for so long a process is silent: one that stops is seen within 20 seconds."""
GONE_MS: Final = 600_000
"""Without a beat for so long a process is forgotten: it was taken away, or its machine was."""
_PREFIX: Final = "streaminfer_"


def instance_of(instance: str | None) -> str:
    """What a process is called among those of its service: as it was told, else by its machine and its number."""
    return instance or f"{socket.gethostname()}-{os.getpid()}"


class Pulse:
    """Beats for one process. A beat that fails is dropped: nothing depends on it."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        service: str,
        instance: str | None,
        registry: CollectorRegistry,
        schemas: Schemas = DECLARED,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._bus, self._topic, self._schemas = bus, names.topic(spec, beats.TOPIC), schemas
        self._service, self._instance, self._registry = service, instance_of(instance), registry
        self._clock, self._wall = clock, wall
        self._start, self._host = round(wall() * 1000), socket.gethostname()
        self._teller = Teller(log, clock)
        self._due = -math.inf
        self._heard = False

    def tick(self, ready: bool) -> None:
        """Beats if it is time."""
        now = self._clock()
        if now < self._due:
            return
        at, counted = round(self._wall() * 1000), counters(self._registry)
        beat = Beat(self._service, self._instance, self._start, self._host, ready, counted, at)
        try:
            key, data = beats.encode(beat, self._schemas)
            self._bus.publish([Output(self._topic, data, key)])
        except (BusError, WireError) as error:
            self._teller.tell(f"a sign of life was not sent: {error}")
            self._heard, self._due = False, self._clock() + AFTER_A_FAILURE
        else:
            self._heard, self._due = True, now + EVERY

    def end(self) -> None:
        """Says that the process ends on purpose, so that nobody waits for its next beat."""
        if not self._heard:
            return
        try:
            self._bus.publish([Output(self._topic, None, beats.key_of(self._service, self._instance))])
        except BusError as error:
            self._teller.tell(f"that this process ends was not sent: {error}")


class Beating:
    """A service whose process beats after every good step, and between the pieces of a long one."""

    def __init__(self, service: Service, pulse: Pulse) -> None:
        self._service, self._pulse = service, pulse

    @property
    def ready(self) -> bool:
        return self._service.ready

    def step(self, timeout: float) -> None:
        with alive.listening(self._tick):
            self._service.step(timeout)
        self._tick()

    def _tick(self) -> None:
        self._pulse.tick(self._service.ready)

    def reset(self) -> None:
        self._service.reset()

    def close(self) -> None:
        try:
            self._service.close()
        finally:
            self._pulse.end()


def counters(registry: CollectorRegistry) -> dict[str, float]:
    """What a service counts and shows, by short names; only the first of them if there are very many."""
    found: dict[str, float] = {}
    for metric in registry.collect():
        for sample in metric.samples:
            name = _short(sample.name, sample.labels)
            if beats.COUNTER.fullmatch(name) and math.isfinite(sample.value) and len(found) < beats.MAX_COUNTERS:
                found[name] = float(sample.value)
    return found


def _short(name: str, labels: dict[str, str]) -> str:
    """`streaminfer_master_increments_total` of the outcome folded: `increments_folded`."""
    if name.endswith("_created"):
        return ""
    inner = name.removeprefix(_PREFIX).partition("_")[2].removesuffix("_total")
    return "_".join([inner, *(value.replace("-", "_") for label, value in labels.items() if label != "posterior")])
