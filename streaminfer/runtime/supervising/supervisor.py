"""Keeps separate processes running: restarts what dies, gives up on what fails by itself again and again."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from streaminfer.runtime.role import Role
from streaminfer.runtime.running.process import SUPERVISOR_VARIABLE
from streaminfer.spec import Spec

log = logging.getLogger(__name__)

MAX_FAILURES: Final = 5
MAX_BACKOFF: Final = 2.0
QUICK_DEATH: Final = 5.0
"""A process that lived longer than this starts again without delay."""
STOP_SECONDS: Final = 4.0
"""For its children to end, and then there is time to kill them before this process is ended itself (see ending)."""


class GaveUp(Exception):
    """A service failed by itself too often without any progress."""


@dataclass
class Child:
    """One supervised process."""

    name: str
    arguments: list[str]
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    quick_deaths: int = 0
    failures: int = 0

    @property
    def to_come(self) -> bool:
        """Whether it was never started and is to be started later than the others."""
        return self.process is None and self.started_at == 0.0 and self.start_at > time.monotonic()

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass
class Supervisor:
    """Call `tick` several times a second, `progressed` whenever the posterior moved, `stop` at the end."""

    children: list[Child]
    restarts: int = 0
    _environment: dict[str, str] = field(default_factory=lambda: {**os.environ, SUPERVISOR_VARIABLE: str(os.getpid())})

    def tick(self) -> None:
        """Starts what is not running and may start now; raises GaveUp."""
        now = time.monotonic()
        for child in self.children:
            if child.alive:
                continue
            if child.process is not None:
                self._bury(child, child.process.returncode, now)
            if now >= child.start_at:
                self._start(child, now)

    def progressed(self) -> None:
        for child in self.children:
            child.failures = 0

    def stop(self) -> None:
        """Asks every process to end, and kills what has not after STOP_SECONDS."""
        running = [child for child in self.children if child.alive]
        for child in running:
            assert child.process is not None  # noqa: S101 (alive)
            child.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for child in running:
            assert child.process is not None  # noqa: S101 (alive)
            try:
                child.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.error("%s did not end within %g s: killed", child.name, STOP_SECONDS)
                child.process.kill()
                child.process.wait()

    def _start(self, child: Child, now: float) -> None:
        # -P: modules come from Python's own folders, never from the directory the data happens to be in.
        command = [sys.executable, "-P", "-m", "streaminfer", "run", *child.arguments]
        child.process = subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL)
        child.started_at = now

    def _bury(self, child: Child, code: int, now: float) -> None:
        """A signal comes from outside and never counts; an exit of its own does, until there is progress."""
        if code < 0:
            log.info("%s was ended by signal %d, starting it again", child.name, -code)
        else:
            child.failures += 1
            log.warning("%s ended with exit code %d", child.name, code)
            if child.failures >= MAX_FAILURES:
                raise GaveUp(f"{child.name} failed {child.failures} times without progress; its messages are above")
        child.quick_deaths = child.quick_deaths + 1 if now - child.started_at < QUICK_DEATH else 0
        delay = min(MAX_BACKOFF, 0.1 * 2 ** (child.quick_deaths - 2)) if child.quick_deaths > 1 else 0.0
        child.start_at = now + delay
        child.process = None
        self.restarts += 1


def children_of(
    roles: Sequence[Role], spec: Spec, workers: int, spec_path: str, bus_url: str, verbose: int, http: str | None = None
) -> list[Child]:
    """The processes of a spec's services. The one that serves has the address `http`, and is then waited for.

    Each has an instance name that its restarts keep and that no other `up` on the same bus has.
    """
    here, now = uuid.uuid4().hex[:8], time.monotonic()
    flags = ["--verbose"] * verbose
    named = [(role, f"{role.short}-{i}") for role in roles for i in range(role.replicas(spec, workers))]
    found = []
    for role, name in named:
        arguments = [role.name, spec_path, "--bus", bus_url, "--instance", f"{name}.{here}", *flags]
        if role.serves and http is not None:
            found.append(Child(name, [*arguments, "--http", http]))
        else:
            found.append(Child(name, arguments, start_at=now + role.after_seconds if role.after_seconds else 0.0))
    return found
