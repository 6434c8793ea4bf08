"""Real processes that start at once: they are forked from one that has all imports, and none has a test's threads."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from threading import Lock
from typing import Self

from tests.faults.programs import wait_for

# A clean process forks the others: all have their imports at once, and none has this process's threads.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.faults.crashing", "tests.faults.chains", "tests.faults.compiled"])


class Forked:
    """A process from the forking one. multiprocessing polls all children whenever it starts one, so threads that use
    it side by side would steal each other's exit codes: one of them at a time."""

    _lock = Lock()

    def __init__(self, target: Callable[..., None], *arguments: object) -> None:
        self._process = FORKS.Process(target=target, args=arguments)
        with self._lock:
            self._process.start()

    @property
    def exitcode(self) -> int | None:
        """None while it lives."""
        with self._lock:
            return self._process.exitcode

    def send(self, number: int) -> None:
        pid = self._process.pid
        if pid is not None and self.exitcode is None:
            os.kill(pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._process.kill()
        wait_for(lambda: self.exitcode is not None, "a killed process is gone", interval=0.01)
