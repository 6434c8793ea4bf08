"""One broker for all processes of a test run, started by the first test that asks.

A keeper process holds the broker. It ends when the process that began the run has ended, in whatever way: that one
holds a lock, which the system takes from the dead. The broker in turn ends with its keeper (see launch.py).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import IO

from tests.brokers.providers import any_broker

RUN = "STREAMINFER_TEST_RUN"
"""The directory of the test run, for the processes of pytest-xdist."""
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 400.0
"""The first time the jars are fetched as well."""


class Run:
    """A test run, in the process that began it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="streaminfer-test-run-"))
        self._alive: IO[str] = (self._folder / "alive").open("w")
        fcntl.flock(self._alive, fcntl.LOCK_EX)
        os.environ[RUN] = str(self._folder)

    def end(self) -> None:
        """Waits for the keeper, so that nothing outlives the run."""
        del os.environ[RUN]
        with (self._folder / "keeper").open("w") as keeper:
            self._alive.close()
            fcntl.flock(keeper, fcntl.LOCK_EX)
        shutil.rmtree(self._folder, ignore_errors=True)


def shared_address() -> str:
    """The address of this run's broker; the first test that asks starts it. Fails with the keeper's message."""
    folder = Path(os.environ[RUN])
    address, failure = folder / "address", folder / "failure"
    with (folder / "start").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists() and not failure.exists():
            _start_keeper(folder)
    if failure.exists():
        raise AssertionError(failure.read_text())
    return address.read_text()


def _start_keeper(folder: Path) -> None:
    with (folder / "keeper.log").open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.brokers", "keep", str(folder)],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + PATIENCE_S
    while not (folder / "address").exists():
        if keeper.poll() is not None or time.monotonic() > deadline:
            keeper.kill()
            (folder / "failure").write_text((folder / "keeper.log").read_text(errors="replace"))
            return
        time.sleep(0.05)
    keeper.returncode = 0  # it is meant to outlive this process: no warning about it


def keep(folder: Path) -> None:
    """The keeper process: holds a broker until the run has ended."""
    signal.signal(signal.SIGTERM, _leave)
    with (folder / "keeper").open("w") as keeper, (folder / "alive").open() as alive:
        fcntl.flock(keeper, fcntl.LOCK_EX)
        with any_broker() as address:
            (folder / "address.new").write_text(address)
            (folder / "address.new").rename(folder / "address")
            fcntl.flock(alive, fcntl.LOCK_EX)
    # If no process waits for the lock that has just been freed, the run was killed: then this is the last to go.
    shutil.rmtree(folder, ignore_errors=True)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
