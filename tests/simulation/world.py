"""One seeded schedule: the real services on a simulated bus, clock and randomness, through every kind of fault.

Each event's value is a power of two, so the sum in a snapshot tells exactly which events it holds. Every snapshot
that a subscriber sees is checked, not only the last.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from greenlet import getcurrent, greenlet
from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Fenced, Output, Partition, Replaced, Unavailable
from streaminfer.runtime import names
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.learning.worker import Worker
from streaminfer.runtime.service import Service
from streaminfer.runtime.supervising.idle import IdleMark
from streaminfer.runtime.telemetry import MasterMetrics, WorkerMetrics
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.snapshot import Snapshot
from tests.simulation.broker import Broker, Clock
from tests.simulation.bus import Faults, SimulatedBus
from tests.simulation.subscribers import ForgettingSubscriber, Subscriber, WindowSubscriber, Wrong

EVENTS = 48
SESSION = 10.0
FAIR_ROUNDS = 400
"""Rounds without faults within which all must be in the posterior."""


class Crash(BaseException):
    """The process is gone, in the middle of whatever it did."""


METRICS_REGISTRY = CollectorRegistry()
WORKER_METRICS = WorkerMetrics(METRICS_REGISTRY, "simulation")
MASTER_METRICS = MasterMetrics(METRICS_REGISTRY, "simulation")


@dataclass
class Services:
    """What runs; a planted bug is another class here."""

    worker: type[Worker] = Worker
    master: type[Master] = Master


@dataclass
class Process:
    """A simulated process: running, dead until `wake`, or stopped (SIGSTOP) until `wake`, maybe inside a step."""

    name: str
    role: str
    service: Service | None = None
    bus: SimulatedBus | None = None
    wake: float = 0.0
    inside: greenlet | None = None
    lives: int = 0


class Chaos(Faults):
    """Faults around the operations of one process."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process
        self._life = process.lives

    def _check_life(self) -> None:
        if self._process.lives != self._life:
            raise Crash  # a dead process's leftovers do nothing more

    def before(self, operation: str) -> None:
        self._check_life()
        world = self._world
        if not world.chaotic:
            return
        draw = world.rng.random()
        if draw < 0.004:
            raise Crash
        if draw < 0.010:
            raise Unavailable(f"{operation}: no effect")
        if draw < (0.25 if operation in {"commit", "writer"} else 0.04):
            world.suspend(self._process)
            self._check_life()

    def after(self, operation: str) -> None:
        if not self._world.chaotic:
            return
        draw = self._world.rng.random()
        if draw < 0.004:
            raise Crash
        if draw < 0.010:
            raise Unavailable(f"{operation}: it took effect, nobody knows")

    def lies(self, operation: str) -> bool:
        return self._world.chaotic and self._world.rng.random() < 0.01

    def repeats(self, operation: str) -> bool:
        return self._world.chaotic and self._world.rng.random() < 0.05


@dataclass
class World:
    """All of one schedule, decided by its seed."""

    seed: int
    services: Services = field(default_factory=Services)
    forget: dict[str, float] | None = None
    """With forgetting a sum no longer tells which events it holds: no data is removed, and all must be there."""
    turns = (40, 90)
    fair_rounds = FAIR_ROUNDS

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.clock = Clock()
        self.broker = Broker(self.wall, SESSION, markers=self.rng.random() < 0.5)
        self.chaotic = True
        self.spec = self.make_spec()
        self.data = names.topic(self.spec, "events")
        self.bus = SimulatedBus(self.broker)
        names.create_topics(self.spec, self.bus)
        self.sent = 0
        self.value_at: dict[tuple[int, int], int] = {}
        self.bad = 0
        self.processes = [Process(f"worker-{i}", "worker") for i in range(self.rng.randint(1, 3))]
        self.processes += [Process(f"master-{i}", "master") for i in range(2)]
        self.static = self.rng.random() < 0.5
        self.subscriber = self.make_subscriber()
        self.broker.on_append = self.subscriber.poll

    def wall(self) -> float:
        """The time of day, as the machines of services and broker have it."""
        return self.clock()

    def make_spec(self) -> Spec:
        return _spec(self.rng, self.forget)

    def make_subscriber(self) -> Subscriber:
        kinds = {None: Subscriber, False: ForgettingSubscriber, True: WindowSubscriber}
        return kinds[self.forget and self.spec.inference.windowed](self)

    def run(self) -> Snapshot:
        """Chaos, then fairness until idle; raises Wrong."""
        for _ in range(self.rng.randint(*self.turns)):
            self.turn()
        self.produce_rest()
        self.chaotic = False
        mark = IdleMark(self.spec, self.bus)
        for process in self.processes:
            process.wake = min(process.wake, self.clock())
        for _ in range(self.fair_rounds):
            for process in self.processes:
                self.step(process)
            self.clock.advance(0.05 if self.rng.random() < 0.9 else 2.0)
            if mark.reached(self.subscriber.newest):
                return self.subscriber.final()
        raise Wrong(f"stuck: frontier {self.subscriber.frontier()} never reached {mark.ends}")

    def produce_rest(self) -> None:
        while self.sent < EVENTS:
            self.produce()

    def turn(self) -> None:
        """One thing happens."""
        draw = self.rng.random()
        process = self.rng.choice(self.processes)
        if draw < 0.80:
            self.step(process)
        elif draw < 0.90:
            self.produce()
        elif draw < 0.93:
            self.kill(process)
        elif draw < 0.95:
            process.wake = self.clock() + self.rng.uniform(0.0, 2 * SESSION)
        elif draw < 0.955:
            self.retire(process)
        elif draw < 0.96:
            self.retention()
        elif draw < 0.965:
            self.compact()
        else:
            self.clock.advance(self.rng.choice([0.5, 3.0, 1.5 * SESSION]))
        self.clock.advance(self.rng.choice([0.0, 0.01, 0.05]))

    def compact(self) -> None:
        for topic in names.topics_of(self.spec):
            if topic.cleanup == "compact":
                self.broker.compact(topic.name)

    def suspend(self, process: Process) -> None:
        """Called inside a step: the process stands still in the middle of an operation while others run."""
        if self.rng.random() < 0.5:
            process.wake = self.clock() + self.rng.uniform(0.0, 2 * SESSION)
        getcurrent().parent.switch()

    def step(self, process: Process) -> None:
        """Starts a step, or goes on with one that was suspended."""
        if self.clock() < process.wake:
            return
        if process.inside is None:
            process.inside = greenlet(self._step)
        process.inside.switch(process)
        if process.inside is not None and process.inside.dead:
            process.inside = None

    def _step(self, process: Process) -> None:
        life = process.lives
        try:
            if process.service is None:
                self._start(process)
            service = process.service
            assert service is not None
            try:
                service.step(0.0)
            except (Unavailable, Fenced) as error:
                if isinstance(error, Replaced):
                    raise Crash from error
                service.reset()
        except (Crash, Unavailable, Fenced):
            if process.lives == life:
                self.kill(process)

    def _start(self, process: Process) -> None:
        process.bus = SimulatedBus(self.broker, Chaos(self, process))
        instance = process.name if self.static else None
        if process.role == "worker":
            identity = f"{process.name}-{process.lives}"
            process.service = self.services.worker(
                self.spec, process.bus, self.clock, identity, WORKER_METRICS, instance
            )
        else:
            process.service = self.services.master(
                self.spec, process.bus, self.clock, MASTER_METRICS, instance, self.wall
            )

    def kill(self, process: Process) -> None:
        """kill -9: what it was in the middle of unwinds without touching the bus."""
        process.lives += 1
        process.service = process.bus = None
        process.wake = self.clock() + self.rng.choice([0.0, 0.0, 1.0, 1.5 * SESSION]) * self.chaotic
        inside, process.inside = process.inside, None
        if inside is not None and inside is not getcurrent() and not inside.dead:
            inside.throw(Crash)

    def retire(self, process: Process) -> None:
        """SIGTERM: the group shrinks, and grows again later."""
        if process.service is not None and process.inside is None:
            process.inside = greenlet(self._close)
            process.inside.switch(process)
            if process.inside is not None and process.inside.dead:
                process.inside = None

    def _close(self, process: Process) -> None:
        life = process.lives
        try:
            assert process.service is not None
            process.service.close()
        except (Crash, Unavailable, Fenced):
            pass
        if process.lives == life:
            self.kill(process)

    def produce(self) -> None:
        """Events onto random partitions, now and then a bad one."""
        outputs = []
        for _ in range(self.rng.randint(1, 8)):
            if self.rng.random() < 0.05:
                outputs.append((None, self._output(b'{"k": "no number"}')))
            elif self.sent < EVENTS:
                value = 1 << self.sent if self.forget is None else 1 + self.sent**2 % 37
                outputs.append((value, self._output(json.dumps(self.event(value)).encode())))
                self.sent += 1
        offsets = self.broker.append([output for _, output in outputs], commit=True)
        for (value, output), offset in zip(outputs, offsets, strict=True):
            assert output.partition is not None
            self.value_at[output.partition, offset] = value or 0

    def event(self, value: int) -> dict[str, Any]:
        return {"k": value}

    def _output(self, value: bytes) -> Output:
        return Output(self.data, value, partition=self.rng.randrange(self.spec.data.partitions))

    def retention(self) -> None:
        """Removes a part of a data partition, read or not, or of the increments."""
        partition = Partition(self.data, self.rng.randrange(self.spec.data.partitions))
        if self.rng.random() < 0.5 or self.forget is not None:
            partition = Partition(names.topic(self.spec, "increments"), self.rng.randrange(self.spec.shards))
        log = self.broker.log(partition)
        self.broker.delete_before(partition, self.rng.randint(log.start, log.end))


def _spec(rng: random.Random, forget: dict[str, float] | None) -> Spec:
    return parse_spec(
        {
            "name": "simulated",
            "data": {"partitions": rng.randint(1, 3)},
            "model": {"kind": "poisson", "field": "k"},
            "inference": {
                "minibatch": rng.choice([1, 3, 8]),
                "linger_ms": rng.choice([0, 20]),
                "snapshot_ms": rng.choice([1, 50]),
                "forget": forget,
            },
        }
    )


def play(seed: int, services: Callable[[], Services] = Services, forget: dict[str, float] | None = None) -> Snapshot:
    """One schedule from its seed; raises Wrong with the seed in its text."""
    world = World(seed, services(), forget)
    try:
        return world.run()
    except Wrong as wrong:
        raise Wrong(f"seed {seed}: {wrong}") from None
