"""What an event costs each role in CPU, and how many workers one master can follow."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import ours
from benchmarks.measure import Aim, Case, Figure, Samples
from benchmarks.processes import Failed
from benchmarks.workload import Workload, load
from streaminfer.bus.connect import open_bus
from streaminfer.runtime import names
from streaminfer.runtime.following.follower import Follower
from streaminfer.variational.snapshot import Snapshot

SLOW_MS = 1_000
"""With so much time between snapshots, they cost a master next to nothing."""
REST_S = 3.0
"""For so long a master is watched that has nothing to do."""
MOST_SHARE = 0.05
PARTITIONS = 4
ONE, TWO = "rate", "rate, two workers"


class Spent(NamedTuple):
    """What was done between the first snapshot with events and the last, and the CPU seconds of each role."""

    events: int
    seconds: float
    increments: int
    snapshots: int
    workers: float
    master: float
    broker: float
    partitions: int
    """Of each worker."""
    idle: float = 0.0
    """CPU seconds that the master takes each second when there is nothing to do."""

    def a_million(self, cpu: float) -> float:
        return 1e6 * cpu / self.events


class Costs(NamedTuple):
    """CPU seconds: of a worker and the brokers for an event, of a master for an increment and for a snapshot."""

    event: float
    broker_event: float
    increment: float
    snapshot: float
    events_a_step: float
    """That a worker learns from at once if there are enough: one increment of those of each partition."""
    idle: float = 0.0
    """Of a master, each second."""


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have used so far, to the nanosecond."""
    found = [int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    if not found:
        raise Failed(f"process {pid} has ended")
    return sum(found) / 1e9


def _next(follower: Follower, events: int) -> Snapshot:
    """The first snapshot with so many events."""
    deadline = time.monotonic() + ours.PATIENCE_S
    while time.monotonic() < deadline:
        for snapshot in follower.poll(0.5):
            if snapshot.n_events >= events:
                return snapshot
    raise Failed(f"the posterior did not get {events} events within {ours.PATIENCE_S:g} seconds")


def spend(
    folder: Path, url: str, work: Workload, inference: Mapping[str, Any], workers: int = 1, broker: int | None = None
) -> Spent:
    """Runs the services until all events are in the posterior, and looks at what they use; `broker` is a process."""
    with open_bus(url) as bus, ExitStack() as stack:
        load(bus, work)
        mine = ours.prepare(folder, url, work, dict(inference))
        names.create_topics(mine.spec, bus)
        follower = Follower(mine.spec, bus)
        stack.callback(follower.close)
        working, masters = ours.launch(stack, mine, work.partitions, workers)
        topic = names.topic(mine.spec, "increments")

        def used() -> tuple[float, ...]:
            roles = ([each.pid for each in working], [each.pid for each in masters], [] if broker is None else [broker])
            return tuple(sum(map(cpu_seconds, pids)) for pids in roles)

        first = _next(follower, 1)
        began, before, there = time.monotonic(), used(), sum(bus.ends(topic).values())
        last = first if first.n_events >= work.events else _next(follower, work.events)
        ended, after = time.monotonic(), used()
        increments = sum(bus.ends(topic).values()) - there
        resting, at_rest = time.monotonic(), used()[1]
        time.sleep(REST_S)
        idle = (used()[1] - at_rest) / (time.monotonic() - resting)
    events = last.n_events - first.n_events
    if events <= 0 or last.version == first.version:
        raise Failed(f"all {work.events} events came with one snapshot: too few to measure what they cost")
    roles = [a - b for a, b in zip(after, before, strict=True)]
    versions, partitions = last.version - first.version, work.partitions // workers
    return Spent(events, ended - began, max(1, increments), versions, roles[0], roles[1], roles[2], partitions, idle)


def samples(fast: Spent, slow: Spent) -> Samples:
    """The figures of a case: from a run with the default snapshots, and one in which they are rare."""
    found = costs(fast, slow)
    return {
        "worker": fast.a_million(fast.workers),
        "master": fast.a_million(fast.master),
        "broker": fast.a_million(fast.broker),
        "master's share": fast.master / fast.workers,
        "events an increment": fast.events / fast.increments,
        "an increment": 1e3 * found.increment,
        "a snapshot": 1e3 * found.snapshot,
        "a master at rest": found.idle,
        "workers that fill a shard": full_at(found),
        ONE: fast.events / fast.seconds,
    }


def costs(fast: Spent, slow: Spent) -> Costs:
    """Beside what it takes at rest, a master's CPU is so much for an increment and so much for a snapshot.

    Two runs give both. If noise does not let them be told apart, half is of each. On the embedded bus the broker's part
    is in the other processes.
    """
    idle = (fast.idle + slow.idle) / 2
    rows = [(x.increments, x.snapshots, max(0.0, x.master - idle * x.seconds)) for x in (fast, slow)]
    (i1, s1, m1), (i2, s2, m2) = rows
    determinant = i1 * s2 - i2 * s1
    increment = (m1 * s2 - m2 * s1) / determinant if determinant else 0.0
    if not 0 < increment * i1 < m1:
        increment = m1 / i1 / 2
    return Costs(
        fast.workers / fast.events,
        fast.broker / fast.events,
        increment,
        max(0.0, m1 - i1 * increment) / s1,
        fast.partitions * fast.events / fast.increments,
        idle,
    )


def of_figures(figures: Sequence[Figure], letter: str) -> tuple[Costs, Mapping[str, float]]:
    """The costs that a case found, and all of its figures by name; raises LookupError if it was not measured."""
    found = {figure.name: figure.median for figure in figures if figure.case == letter}
    if TWO not in found:
        raise LookupError(f"there is no case {letter} in these results: measure it with ONLY={letter}")
    step = PARTITIONS * found["events an increment"]
    increment, snapshot = found["an increment"] / 1e3, found["a snapshot"] / 1e3
    idle = found["a master at rest"]
    return Costs(found["worker"] / 1e6, found["broker"] / 1e6, increment, snapshot, step, idle), found


def full_at(found: Costs, partitions: int = 1, snapshot_s: float = 0.05) -> float:
    """How many workers of so many partitions, each with a core of its own, fill the core of one master."""
    room = max(0.0, 1 - found.idle - found.snapshot / snapshot_s)
    return room * found.event * found.events_a_step / max(partitions * found.increment, 1e-9)


def case(
    letter: str, title: str, folder: Path, url: str, work: Workload, inference: Mapping[str, Any], broker: int | None
) -> Case:
    """CPU by role of one worker and one master."""

    def run() -> Samples:
        fast = spend(folder, url, work, inference, broker=broker)
        slow = spend(folder, url, work, {**inference, "snapshot_ms": SLOW_MS}, broker=broker)
        two = spend(folder, url, work, inference, workers=2, broker=broker)
        return {**samples(fast, slow), TWO: two.events / two.seconds}

    units = {
        "master's share": "ratio", "events an increment": "events", "an increment": "ms", "a snapshot": "ms",
        "a master at rest": "cores", "workers that fill a shard": "workers", ONE: "events/s", TWO: "events/s",
    }  # fmt: skip
    return Case(
        letter, title, "s/million", {"ours": run}, aims={"master's share": Aim("<=", MOST_SHARE)}, units=units, most=3
    )


def cases(
    folder: Path,
    embedded: str,
    kafka: str | None,
    broker: int | None,
    avro: Workload,
    rows: Workload,
    json: Workload,
) -> Iterator[Case]:
    """On both buses, of one event a record and of many."""
    many = {"minibatch": 16}
    if kafka is not None:
        yield case("x1", "Kafka, one Avro record an event: CPU by role", folder, kafka, avro, {}, broker)
        yield case("x2", "Kafka, format rows: CPU by role", folder, kafka, rows, many, broker)
    yield case("x3", "embedded, one JSON record an event: CPU by role", folder, embedded, json, {}, None)
