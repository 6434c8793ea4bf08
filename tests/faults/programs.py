"""The program as a user runs it: real processes, each in a group of its own, none left at the end of a test."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from streaminfer import connect, load_spec
from streaminfer.bus.protocol import UnknownTopic
from streaminfer.runtime.following.shards import Shards

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 120.0


@contextmanager
def interruptible() -> Iterator[None]:
    """Processes that are started meanwhile end with SIGINT, even if this one ignores it, as jobs of a script do.

    What is ignored is inherited; a handler is not, and is the default again in another program.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if not ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Program:
    """A process in the background, with what it wrote to its standard output and error."""

    def __init__(self, command: list[str], folder: Path, number: int, environment: dict[str, str]) -> None:
        self._out, self._err = folder / f"{number}.out", folder / f"{number}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err, interruptible():
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Its whole lines of standard output, which must be JSON; a line that is still being written is left."""
        return [json.loads(line) for line in self.out.splitlines(keepends=True) if line.endswith("\n")]

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGTERM, timeout: float = 60.0) -> int:
        """Sends a signal and waits for the exit code."""
        self.send(number)
        return self.process.wait(timeout)

    def destroy(self) -> None:
        """Kills it and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


class Programs:
    """Starts programs in `folder`; all of them, and their children, are gone after `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Program] = []
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        self.environment["STREAMINFER_SCRATCH"] = str(folder / "scratch")
        for name in ("STREAMINFER_BUS", "STREAMINFER_HTTP_TOKEN"):
            self.environment.pop(name, None)

    def start(self, *arguments: object, module: str = "streaminfer") -> Program:
        """`streaminfer ARGUMENTS` (or another module) in the background."""
        # -P, as an installed console script: nothing is imported from the current directory.
        command = [sys.executable, "-P", "-m", module, *map(str, arguments)]
        program = Program(command, self.folder, len(self._started), self.environment)
        self._started.append(program)
        return program

    def run(self, *arguments: object, code: int = 0, timeout: float = TIMEOUT) -> Program:
        """The same to its end, which must have this exit code."""
        program = self.start(*arguments)
        found = program.process.wait(timeout)
        assert found == code, f"{arguments[0]} ended with {found}, not {code}:\n{program.err}"
        return program

    def close(self) -> None:
        """Shows what each said, for the reader of a test that failed."""
        for program in self._started:
            program.destroy()
            print(f"--- {' '.join(program.process.args[4:])}\n{program.err[-3000:]}")


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    try:
        yield made
    finally:
        made.close()


def document(spec: Path, url: str) -> dict[str, Any]:
    """What `snapshot --json` prints now, without the second that a process takes to start."""
    with connect(url) as connection:
        found = connection.snapshot(load_spec(spec))
    assert found is not None, "there is no snapshot"
    return found.to_json()


def n_events(spec: Path, url: str) -> int:
    """Events in the posterior now, in all its shards; 0 before the first snapshots."""
    with connect(url) as connection:
        try:
            shards = Shards(load_spec(spec), connection.bus)
        except UnknownTopic:
            return 0
        found = shards.catch_up()
        shards.close()
    return 0 if found is None else found.n_events


def children(parent: int) -> dict[int, str]:
    """The command lines of the living children of a process, by pid.

    From /proc: the lines of `ps` are as wide as the terminal, which cuts a command off if COLUMNS is set.
    """
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, of = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if int(of) == parent and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
    return dict(sorted(found.items()))


def services(parent: int, service: str) -> list[int]:
    """The pids of the children that run a service."""
    return [pid for pid, arguments in children(parent).items() if f" run {service} " in arguments]


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


def wait_for(condition: Callable[[], bool], what: str, timeout: float = 120.0, interval: float | None = None) -> None:
    """Waits until a condition holds; fails with `what` when it has not in time.

    Looks are work too, and more than waiting on a broker: they become rarer, unless there is an `interval`.
    """
    deadline, nap = time.monotonic() + timeout, 0.05
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
        time.sleep(nap if interval is None else interval)
        nap = min(1.5 * nap, 0.5)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
