"""Our services at work on a topic that is full already: a master and workers, as the processes that `up` starts.

Workers get their partitions before there is a master, and wait for it: so what is measured, the movement of the
posterior's frontier from the first snapshot with events to the last, has no process's start in it.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contenders.task import Outcome
from benchmarks.processes import Failed, running
from benchmarks.proof import sum_of_squares
from benchmarks.workload import Workload, matrix, spec
from streaminfer.bus.connect import open_bus
from streaminfer.models.model import with_posterior
from streaminfer.runtime import names
from streaminfer.runtime.following.follower import Follower
from streaminfer.spec import Spec, load_spec
from streaminfer.variational.snapshot import Snapshot

PATIENCE_S = 300.0
_OWNED = re.compile(r"^streaminfer_worker_partitions\{.*\} (\S+)$", re.MULTILINE)


Started = list[subprocess.Popen[str]]


class Ours(NamedTuple):
    """A spec of this benchmark's, in a file, on a bus."""

    path: Path
    spec: Spec
    url: str


def prepare(folder: Path, url: str, work: Workload, inference: dict[str, Any], own: bool = False) -> Ours:
    """A posterior that nobody has begun, of the work's topic or of one of its own."""
    return written(folder, url, lambda name: spec(name, work, inference, own))


def written(folder: Path, url: str, text: Callable[[str], str]) -> Ours:
    """A spec under a name that no other has."""
    name = f"bench-{uuid.uuid4().hex[:12]}"
    path = folder / f"{name}.yaml"
    path.write_text(text(name))
    return Ours(path, load_spec(path), url)


def absorb(ours: Ours, work: Workload, workers: int = 1) -> Outcome:
    """Runs the services until all events are in the posterior."""
    with open_bus(ours.url) as bus, ExitStack() as stack:
        names.create_topics(ours.spec, bus)
        follower = Follower(ours.spec, bus)
        stack.callback(follower.close)
        start(stack, ours, work.partitions, workers)
        first, last = follow(follower, work.events)
    return outcome(
        first, last, work.events, sum_of_squares(with_posterior(ours.spec.model), last.payload.statistics, matrix(work))
    )


def outcome(first: Snapshot, last: Snapshot, events: int, squares: float) -> Outcome:
    """What was done between the first snapshot with events and the one with all of them."""
    if last.n_events != events:
        raise Failed(f"{last.n_events} events in the posterior of {events}")
    if last.version == first.version:
        raise Failed(f"all {events} events came with one snapshot: too few to measure a rate")
    # The events of the first snapshot are not counted: when their reading began is not known.
    counted = last.n_events - first.n_events
    return Outcome(counted, first.created_at / 1000, last.created_at / 1000, squares)


def start(stack: ExitStack, ours: Ours, partitions: int, workers: int) -> subprocess.Popen[str]:
    """All services; the first master is returned."""
    return launch(stack, ours, partitions, workers)[1][0]


def launch(stack: ExitStack, ours: Ours, partitions: int, workers: int) -> tuple[Started, Started]:
    """Workers first, then, when they have shared out the partitions, a master for each shard."""
    ports = [free_port() for _ in range(workers)]
    arguments = [f"{ours.spec.inference.method}-worker", str(ours.path), "--bus", ours.url]
    started = [
        stack.enter_context(running(["-m", "streaminfer", "run", *arguments, "--http", f"127.0.0.1:{port}"]))
        for port in ports
    ]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        owned = [_owned(port) for port in ports]
        if sum(owned) == partitions and min(owned) > 0:
            break
        if any(each.poll() is not None for each in started):
            raise Failed("a worker has ended; its messages are above")
        if time.monotonic() > deadline:
            raise Failed(f"the workers have {owned} of {partitions} partitions")
        time.sleep(0.1)
    return started, [master(stack, ours, shard) for shard in range(ours.spec.shards)]


def master(stack: ExitStack, ours: Ours, shard: int = 0) -> subprocess.Popen[str]:
    """A master under the name of an instance, as `up` starts it: its successor takes over at once."""
    arguments = [str(ours.path), "--bus", ours.url, "--instance", f"master-{shard}"]
    return stack.enter_context(running(["-m", "streaminfer", "run", "master", *arguments]))


def follow(follower: Follower, events: int) -> tuple[Snapshot, Snapshot]:
    """The first snapshot with events, and the first with all of them."""
    deadline = time.monotonic() + PATIENCE_S
    first: Snapshot | None = None
    while time.monotonic() < deadline:
        for snapshot in follower.poll(0.5):
            if snapshot.n_events and first is None:
                first = snapshot
            if snapshot.n_events >= events and first is not None:
                return first, snapshot
    raise Failed(f"the posterior did not get {events} events within {PATIENCE_S:g} seconds")


def _owned(port: int) -> int:
    """How many partitions a worker says it has."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            found = _OWNED.search(answer.read().decode())
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return 0
    return int(float(found[1])) if found else 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
