"""Services that kill their own process at one commit boundary: before or after their n-th write to the bus."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Member, Output, Poll, Positions, Writer
from streaminfer.runtime import names
from streaminfer.runtime.loading import produce
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.running import loop
from streaminfer.runtime.running.process import StopSignal
from streaminfer.services import ROLES

T = TypeVar("T")


class Boundary(NamedTuple):
    """The write to die at: its number (from 1), before it or after it. Number 0: never."""

    number: int = 0
    after: bool = False


class Fuse:
    """Counts writes, and kills the process with SIGKILL at its boundary."""

    def __init__(self, boundary: Boundary) -> None:
        self._boundary = boundary
        self._count = 0

    def write(self, operation: Callable[[], T]) -> T:
        self._count += 1
        due = self._count == self._boundary.number
        if due and not self._boundary.after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = operation()
        if due:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


class CrashingMember:
    """A member whose commits are counted. It reads few records at a time, so that there are many boundaries."""

    def __init__(self, member: Member, fuse: Fuse, records: int) -> None:
        self.inner, self._fuse, self._records = member, fuse, records

    def poll(self, timeout: float, max_records: int = 10_000) -> Poll:
        return self.inner.poll(timeout, min(self._records, max_records))

    def commit(self, positions: Positions) -> None:
        self._fuse.write(lambda: self.inner.commit(positions))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class CrashingWriter:
    """A writer whose commits are counted."""

    def __init__(self, writer: Writer, fuse: Fuse) -> None:
        self._writer, self._fuse = writer, fuse

    def commit(self, outputs: Sequence[Output], positions: Positions | None = None, owner: Any = None) -> list[int]:
        inner = owner.inner if isinstance(owner, CrashingMember) else owner
        return self._fuse.write(lambda: self._writer.commit(outputs, positions, inner))

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> CrashingWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class CrashingBus:
    """A bus whose writes are counted: publish, member join and commit, writer open and commit."""

    def __init__(self, bus: Bus, fuse: Fuse, records: int) -> None:
        self._bus, self._fuse, self._records = bus, fuse, records

    def publish(self, outputs: Sequence[Output]) -> list[int]:
        return self._fuse.write(lambda: self._bus.publish(outputs))

    def member(self, group: str, topics: Sequence[str], instance: str | None = None) -> Any:
        member = self._fuse.write(lambda: self._bus.member(group, topics, instance))
        return CrashingMember(member, self._fuse, self._records)

    def writer(self, name: str) -> Any:
        return CrashingWriter(self._fuse.write(lambda: self._bus.writer(name)), self._fuse)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)


def serve(service: str, spec_path: Path, url: str, boundary: Boundary, records: int) -> None:
    """A service as `streaminfer run --instance` composes it, on a bus that may kill it."""
    spec, stopping = load_spec(spec_path), StopSignal()
    with open_bus(url) as bus:
        ids = schemas.prepare(spec, bus)
        crashing: Any = CrashingBus(bus, Fuse(boundary), records)
        loop.run(lambda: ROLES[service].build(spec, crashing, CollectorRegistry(), f"{service}-0", ids), stopping)


def load(file: Path, spec_path: Path, url: str, boundary: Boundary, rows: int) -> None:
    """`streaminfer produce` in batches of a few rows, on a bus that may kill it."""
    vars(produce)["BATCH_RECORDS"] = rows
    spec = load_spec(spec_path)
    with open_bus(url) as bus:
        names.create_topics(spec, bus)
        crashing: Any = CrashingBus(bus, Fuse(boundary), rows)
        for _ in produce.Loader(spec, crashing, file).run():
            pass
