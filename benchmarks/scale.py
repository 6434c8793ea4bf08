"""What a cluster of many machines would do, played event by event with the costs that were measured here.

Every process is played: workers that read, learn and publish, brokers that serve them, masters that fold and write
snapshots. Processes of one machine share its cores equally. Nothing is assumed of the whole; that a master is full, or
that brokers are, comes out of their queues.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from benchmarks.costs import ONE, PARTITIONS, TWO, Costs, full_at, of_figures
from benchmarks.measure import Figure
from benchmarks.report import aligned

POLL_INCREMENTS: Final = 100
"""That a master folds before it looks whether a snapshot is due."""
POLL_S: Final = 0.01
"""Between two looks of a worker that finds nothing."""
ROUND_TRIP_S: Final = 0.004
"""To a broker and back."""
FULL: Final = 0.95
SIZES: Final = (4, 8, 16, 32, 64, 128, 256, 512, 1000)


class Machine:
    """Some cores, shared equally by those who compute: each has one at most."""

    def __init__(self, cores: float) -> None:
        self.cores = cores
        self._done = 0.0
        """Seconds of CPU that each of those who compute has had since the start."""
        self._at = 0.0
        self._jobs: list[tuple[float, int, Callable[[], None]]] = []

    def add(self, now: float, job: int, seconds: float, then: Callable[[], None]) -> None:
        self._advance(now)
        heapq.heappush(self._jobs, (self._done + seconds, job, then))

    def next_end(self) -> float:
        """When the first of the jobs ends if none is added."""
        return self._at + (self._jobs[0][0] - self._done) / self._rate if self._jobs else math.inf

    def finish(self, now: float) -> Callable[[], None]:
        """Takes away that job, and returns what follows it."""
        self._advance(now)
        return heapq.heappop(self._jobs)[2]

    @property
    def _rate(self) -> float:
        return min(1.0, self.cores / len(self._jobs)) if self._jobs else 0.0

    def _advance(self, now: float) -> None:
        passed = (now - self._at) * self._rate
        self._done += passed
        self._at = now


@dataclass(frozen=True)
class Cluster:
    """What there is. Workers, masters and brokers have a core each, or all share the cores of one machine."""

    workers: int
    partitions: int
    brokers: int = 1
    shards: int = 1
    broker_cores: int = 1
    snapshot_s: float = 0.05
    one_machine: int | None = None
    offered: float = math.inf
    """Events that come each second; without a limit there is always something to read."""

    @property
    def cores(self) -> int:
        return self.one_machine or self.workers + self.shards + self.brokers * self.broker_cores


class Found(NamedTuple):
    """How it went: events folded a second, how busy the roles were, and how long an event waited (median)."""

    rate: float
    workers: float
    masters: float
    brokers: float
    delay: float

    @property
    def full(self) -> str:
        """What there is too little of."""
        busy = {"workers": self.workers, "masters": self.masters, "brokers": self.brokers}
        most = max(busy, key=busy.__getitem__)
        return most if busy[most] >= FULL else ""


class _Batch(NamedTuple):
    """What a worker reads at once: `read_at` is when its events came, in the mean."""

    events: float
    read_at: float
    asked_at: float


class _Increment(NamedTuple):
    events: float
    read_at: float


class Play:
    """One cluster from its start on."""

    def __init__(self, cluster: Cluster, costs: Costs) -> None:
        self._cluster, self._costs = cluster, costs
        shared = None if cluster.one_machine is None else Machine(cluster.one_machine)
        self._workers = [shared or Machine(1) for _ in range(cluster.workers)]
        self._masters = [shared or Machine(1 - costs.idle) for _ in range(cluster.shards)]
        self._brokers = [shared or Machine(cluster.broker_cores) for _ in range(cluster.brokers)]
        self._machines = list(dict.fromkeys([*self._workers, *self._masters, *self._brokers]))
        self._ends: list[tuple[float, int, Machine]] = []
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.now = 0.0
        self._queues: list[deque[_Increment]] = [deque() for _ in range(cluster.shards)]
        self._folded: list[list[_Increment]] = [[] for _ in range(cluster.shards)]
        self._ready: list[_Batch | None] = [None] * cluster.workers
        self._learning = [False] * cluster.workers
        self._idle = [True] * cluster.shards
        self._due = [0.0] * cluster.shards
        self.seen: list[tuple[float, float, float]] = []
        """(when, events, how long ago they were read) of what snapshots have shown."""
        self._busy: dict[str, float] = dict.fromkeys(("workers", "masters", "brokers"), 0.0)

    def run(self, seconds: float) -> Found:
        """The last two thirds count."""
        for worker in range(self._cluster.workers):
            self._read(worker, self.now)
        warm, before = seconds / 3, dict(self._busy)
        while self.now < seconds:
            if self.now < warm:
                before = dict(self._busy)
            self._step(seconds)
        lasted, cluster = seconds - warm, self._cluster
        counted = sorted((ago, events) for at, events, ago in self.seen if at >= warm)
        total, passed, delay = sum(events for _, events in counted), 0.0, math.inf
        for ago, events in counted:
            passed += events
            if passed >= total / 2:
                delay = ago
                break
        cores = {
            "workers": cluster.workers,
            "masters": cluster.shards,
            "brokers": cluster.brokers * cluster.broker_cores,
        }
        busy = {role: min(1.0, (self._busy[role] - before[role]) / lasted / cores[role]) for role in cores}
        return Found(total / lasted, busy["workers"], busy["masters"], busy["brokers"], delay)

    def _step(self, until: float) -> None:
        later = self._later[0][0] if self._later else math.inf
        while self._ends and self._ends[0][2].next_end() > self._ends[0][0] + 1e-12:
            _, number, machine = heapq.heappop(self._ends)  # others have come to this machine since
            if machine.next_end() < math.inf:
                heapq.heappush(self._ends, (machine.next_end(), number, machine))
        end = self._ends[0][0] if self._ends else math.inf
        self.now = min(end, later, until)
        if self.now >= until:
            return
        if later <= end:
            heapq.heappop(self._later)[2]()
            return
        _, number, machine = heapq.heappop(self._ends)
        then = machine.finish(self.now)
        self._await(machine, number)
        then()

    def _await(self, machine: Machine, number: int) -> None:
        if machine.next_end() < math.inf:
            heapq.heappush(self._ends, (machine.next_end(), number, machine))

    def _compute(self, role: str, machine: Machine, seconds: float, then: Callable[[], None]) -> None:
        self._busy[role] += seconds
        number = next(self._numbers)
        machine.add(self.now, number, seconds, then)
        self._await(machine, number)

    def _after(self, seconds: float, then: Callable[[], None]) -> None:
        heapq.heappush(self._later, (self.now + seconds, next(self._numbers), then))

    def _read(self, worker: int, since: float) -> None:
        """A worker's client asks a broker for what has come, while the worker still learns from what it had."""
        mine = self._cluster.offered / self._cluster.workers
        most = self._costs.events_a_step
        events = most if mine == math.inf else min(mine * (self.now - since), most)
        if events < 1:
            self._after(POLL_S, lambda: self._read(worker, since))
            return
        batch = _Batch(events, self.now if mine == math.inf else (since + self.now) / 2, self.now)
        broker = self._brokers[worker % len(self._brokers)]
        arrive = lambda: self._after(ROUND_TRIP_S, lambda: self._arrived(worker, batch))  # noqa: E731
        self._compute("brokers", broker, events * self._costs.broker_event, arrive)

    def _arrived(self, worker: int, batch: _Batch) -> None:
        self._ready[worker] = batch
        if not self._learning[worker]:
            self._learn(worker)

    def _learn(self, worker: int) -> None:
        batch, self._ready[worker] = self._ready[worker], None
        self._learning[worker] = batch is not None
        if batch is None:
            return
        self._read(worker, batch.asked_at)

        def publish() -> None:
            self._after(ROUND_TRIP_S, lambda: self._published(batch))
            self._learn(worker)

        self._compute("workers", self._workers[worker], batch.events * self._costs.event, publish)

    def _published(self, batch: _Batch) -> None:
        """An increment of each partition for every shard."""
        n = max(1, min(round(self._cluster.partitions / self._cluster.workers), round(batch.events)))
        for shard, queue in enumerate(self._queues):
            share = batch.events / n / self._cluster.shards
            queue.extend(_Increment(share, batch.read_at) for _ in range(n))
            if self._idle[shard]:
                self._idle[shard] = False
                self._fold(shard)

    def _fold(self, shard: int) -> None:
        queue = self._queues[shard]
        taken = [queue.popleft() for _ in range(min(POLL_INCREMENTS, len(queue)))]
        due = self.now >= self._due[shard] and (taken or self._folded[shard])
        if not taken and not due:
            self._idle[shard] = True
            if self._folded[shard]:
                self._idle[shard] = False
                self._after(self._due[shard] - self.now, lambda: self._fold(shard))
            return
        self._folded[shard] += taken

        def folded() -> None:
            if due:
                self._due[shard] = self.now + self._cluster.snapshot_s
                self.seen += [(self.now, each.events, self.now - each.read_at) for each in self._folded[shard]]
                self._folded[shard].clear()
            self._fold(shard)

        cost = len(taken) * self._costs.increment + bool(due) * self._costs.snapshot
        self._compute("masters", self._masters[shard], cost, folded)


def play(cluster: Cluster, costs: Costs, seconds: float = 3.0) -> Found:
    return Play(cluster, costs).run(seconds)


def grown(costs: Costs, cores: int, partitions_a_worker: int = 1, busy: float = 0.7) -> Cluster:
    """A cluster of so many cores: one master, as many brokers as their part of an event needs, workers for the rest."""
    share = costs.broker_event / busy / (costs.event + costs.broker_event / busy)
    brokers = max(1, round(share * (cores - 1))) if costs.broker_event else 1
    workers = max(1, cores - 1 - brokers)
    return Cluster(workers, workers * partitions_a_worker, brokers)


def lines(costs: Costs, sizes: Sequence[int] = SIZES) -> Iterator[tuple[str, ...]]:
    """Rate against cores, until the master is full and beyond."""
    yield ("cores", "workers", "brokers", "events/s", "a core", "workers busy", "brokers busy", "master busy", "full")
    for cores in sizes:
        cluster = grown(costs, cores)
        found = play(cluster, costs)
        busy = (f"{share:.0%}" for share in (found.workers, found.brokers, found.masters))
        rate, each = f"{found.rate:,.0f}", f"{found.rate / cluster.cores:,.0f}"
        yield (str(cluster.cores), str(cluster.workers), str(cluster.brokers), rate, each, *busy, found.full)


def check(costs: Costs, measured: Mapping[str, float], cores: int) -> Iterator[tuple[str, ...]]:
    """What this machine should have done by its costs, beside what it did."""
    yield ("on this machine", "played", "measured", "ratio")
    for workers, name in ((1, ONE), (2, TWO)):
        found = play(Cluster(workers, PARTITIONS, one_machine=cores), costs)
        ratio = found.rate / measured[name]
        yield (f"{workers} worker{'s' * (workers > 1)}", f"{found.rate:,.0f}", f"{measured[name]:,.0f}", f"{ratio:.2f}")


def told(figures: Sequence[Figure], letter: str, cores: int, sizes: Sequence[int] = SIZES) -> str:
    """All of it for one case of costs."""
    costs, measured = of_figures(figures, letter)
    full = full_at(costs)
    tables = [aligned(list(each), right=range(1, 8)) for each in (check(costs, measured, cores), lines(costs, sizes))]
    return "\n\n".join([*tables, f"a master follows {full:,.0f} workers of one partition each"])
