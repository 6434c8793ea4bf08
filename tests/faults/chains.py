"""Samplers and their master in processes that tests can kill: with short sessions, many commits, and a slow pace."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Bus
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.running import loop
from streaminfer.runtime.running.process import StopSignal
from streaminfer.runtime.sampling import course, sampler, scratch
from streaminfer.services import ROLES

SESSION_S = 4.0
COMMIT_S = 0.05


class Job(NamedTuple):
    """A spec on a bus, a folder for rows, and seconds that a chain rests after a block."""

    spec: Path
    url: str
    scratch: Path
    nap: float


def serve(service: str, instance: str | None, job: Job) -> None:
    """A service as `streaminfer run` composes it."""
    os.environ[scratch.VARIABLE] = str(job.scratch)
    vars(sampler).update(COMMIT_S=COMMIT_S, SLICE_S=COMMIT_S)
    rest_after_blocks(job.nap)
    spec, stopping = load_spec(job.spec), StopSignal()
    with short_lived(job.url) as bus:
        ids = schemas.prepare(spec, bus)
        loop.run(lambda: ROLES[service].build(spec, bus, CollectorRegistry(), instance, ids), stopping)


def short_lived(url: str) -> Bus:
    """A bus whose sessions are over soon."""
    if url.startswith("embedded:"):
        return EmbeddedBus(Path(url.partition(":")[2]), session_s=SESSION_S)
    bus: Any = open_bus(url)
    bus._connection.session_s = SESSION_S
    return bus  # type: ignore[no-any-return]


def rest_after_blocks(nap: float) -> None:
    """What a chain computes stays the same."""
    advance = course.chains.advance

    def slowly(*arguments: Any) -> Any:
        time.sleep(nap)
        return advance(*arguments)

    vars(course)["chains"] = _Changed(course.chains, slowly)


class _Changed:
    """The module of chains with another pace."""

    def __init__(self, module: Any, advance: Any) -> None:
        self._module, self.advance = module, advance

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
