"""Schedules of chains: the real samplers and masters on a simulated bus, clock and randomness, through every fault.

A chain is a function of its events and names. So each draw that a reader sees must be, bit by bit, that of a chain
that was never disturbed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from greenlet import getcurrent

from streaminfer.bus.protocol import Output, Unavailable
from streaminfer.runtime.pooling.master import PoolingMaster
from streaminfer.runtime.sampling import scratch
from streaminfer.runtime.sampling.sampler import Sampler
from streaminfer.runtime.telemetry import SamplerMetrics
from streaminfer.sampling.settings import Settings
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.snapshot import Snapshot
from tests.simulation.bus import SimulatedBus
from tests.simulation.chain_subscribers import ChainSubscriber
from tests.simulation.subscribers import Wrong
from tests.simulation.world import MASTER_METRICS, METRICS_REGISTRY, SESSION, Chaos, Crash, Process, World

FIRST, EVENTS = 12, 40
"""Events before the first turn, and in the end: by growth they make two segments or three."""
THIN = {"mh": 2, "gibbs": 1, "sgld": 24, "subsampled_mh": 24, "poisson_mh": 256, "flymc": 8}
"""Steps from one draw to the next of the methods that are simulated: some draws for each block."""
BERNOULLI = {"kind": "bernoulli", "field": "x"}
LOGISTIC = {"kind": "logistic_regression", "features": ["x"], "target": "y"}
"""Its events can be bright, and have bounds."""
SAMPLER_METRICS = SamplerMetrics(METRICS_REGISTRY, "simulation")


@dataclass
class Samplers:
    """What runs; a planted bug is another class here."""

    sampler: type[Sampler] = Sampler
    master: type[PoolingMaster] = PoolingMaster


class Zombies(Chaos):
    """Faults that leave chains time to move, and most of them around commits.

    Often a process stands still in the middle of a commit until others have taken over what it owns.
    """

    def __init__(self, world: SamplerWorld, process: Process) -> None:
        super().__init__(world, process)
        self._outlive = lambda: world.outlive(process)

    def before(self, operation: str) -> None:
        self._check_life()
        world, decisive = self._world, operation in {"commit", "writer"}
        if not world.chaotic:
            return
        draw = world.rng.random()
        if draw < (0.02 if decisive else 0.001):
            raise Crash
        if draw < (0.03 if decisive else 0.002):
            raise Unavailable(f"{operation}: no effect")
        if draw < (0.15 if decisive else 0.005):
            world.suspend(self._process)
        elif decisive and draw < 0.25:
            self._outlive()
        self._check_life()

    def after(self, operation: str) -> None:
        if operation == "commit":
            draw = self._world.rng.random() if self._world.chaotic else 1.0
            if draw < 0.02:
                raise Crash
            if draw < 0.04:
                raise Unavailable(f"{operation}: it took effect, nobody knows")

    def lies(self, operation: str) -> bool:
        return self._world.chaotic and self._world.rng.random() < 0.03


@dataclass
class SamplerWorld(World):
    """All of one schedule. A process may die or stand still in the middle of a computation, too."""

    classes: Samplers = field(default_factory=Samplers)
    turns = (150, 500)
    ticks = (0.0, 0.1, 0.4)
    """Seconds between two looks at the clock of a process that computes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.processes = [Process(f"sampler-{i}", "sampler") for i in range(self.rng.randint(1, 3))]
        self.processes += [Process(f"master-{i}", "master") for i in range(2)]
        self.settings: Settings = self.spec.sampling  # type: ignore[assignment]

    def make_spec(self) -> Spec:
        return _spec(self.rng)

    def make_subscriber(self) -> ChainSubscriber:  # type: ignore[override]
        return ChainSubscriber(self)

    def run(self) -> Snapshot:
        """Chaos, then fairness until all events are in a complete segment; raises Wrong."""
        while self.sent < FIRST:
            self.produce()
        return super().run()

    def produce_rest(self) -> None:
        while self.sent < EVENTS:
            self.produce()

    def turn(self) -> None:
        """One thing happens: mostly somebody works."""
        draw = self.rng.random()
        if draw < 0.02:
            shutil.rmtree(scratch.folder(), ignore_errors=True)
        elif draw < 0.6:
            self.step(self.rng.choice(self.processes))
        else:
            super().turn()

    def retention(self) -> None:
        """Nothing is removed: a segment that is cut has draws that depend on when that was."""

    def produce(self) -> None:
        """Events onto random partitions, now and then a bad one; later ones are rare."""
        if self.chaotic and self.sent >= FIRST and self.rng.random() < 0.5:
            return
        outputs = []
        for _ in range(self.rng.randint(1, 6)):
            if self.rng.random() < 0.05:
                outputs.append(self._output(b'{"x": "no number"}'))
            elif self.sent < EVENTS:
                outputs.append(self._output(json.dumps(self.event(self.sent)).encode()))
                self.sent += 1
        self.broker.append(outputs, commit=True)

    def event(self, value: int) -> dict[str, Any]:
        return {"x": int(value % 3 == 0), "y": int(value % 4 == 0)}

    def _output(self, value: bytes) -> Output:
        return Output(self.data, value, partition=self.rng.randrange(self.spec.data.partitions))

    def _start(self, process: Process) -> None:
        chaos = Zombies(self, process)
        process.bus = SimulatedBus(self.broker, chaos)
        instance = process.name if self.static else None
        if process.role == "sampler":
            clock = self.working_clock(process, chaos)
            process.service = self.classes.sampler(self.spec, process.bus, clock, SAMPLER_METRICS, instance)
        else:
            process.service = self.classes.master(
                self.spec, process.bus, self.clock, MASTER_METRICS, instance, self.wall
            )

    def working_clock(self, process: Process, chaos: Chaos) -> Callable[[], float]:
        """A clock that moves while its process computes: between two looks anything may happen to it."""

        def look() -> float:
            chaos._check_life()
            if self.chaotic:
                draw = self.rng.random()
                if draw < 0.002:
                    raise Crash
                if draw < 0.01:
                    self.suspend(process)
                    chaos._check_life()
            self.clock.advance(self.rng.choice(self.ticks))
            return self.clock()

        return look

    def outlive(self, process: Process) -> None:
        """Its session is over, and it wakes up a little later."""
        self.clock.advance(1.2 * SESSION)
        process.wake = self.clock() + self.rng.uniform(0.0, 4.0)
        getcurrent().parent.switch()

    def kill(self, process: Process) -> None:
        """The system closes what the process had open, so others get its locks."""
        service = process.service
        super().kill(process)
        if isinstance(service, Sampler):
            for work in service._work.values():
                work.close()
            if service._answering is not None:
                service._answering._leave_all()


def _spec(rng: random.Random) -> Spec:
    method = rng.choice(list(THIN))
    inference: dict[str, Any] = {
        "method": method,
        "chains": 2,
        "draws": rng.choice([4, 20]),
        "thin": THIN[method],
        "warmup": rng.choice([0, 5]),
        "seed": rng.choice([0, 7]),
        "segment": {"growth": 1.5},
        "snapshot_ms": rng.choice([1, 50]),
    }
    if method == "sgld":
        inference |= {"minibatch": 4, "step": {"size": 0.1}, "batches": rng.choice(["random", "shuffled"])}
        inference["correct"] = rng.choice([None, {"rule": "t", "error": 0.2}])
    if method == "subsampled_mh":
        inference |= {"minibatch": 4, "test": {"rule": "t", "error": rng.choice([0.01, 0.2])}}
    return parse_spec(
        {
            "name": "simulated",
            "data": {"partitions": rng.randint(1, 2)},
            "model": LOGISTIC if method in {"poisson_mh", "flymc"} else BERNOULLI,
            "inference": inference,
        }
    )


@contextmanager
def own_scratch() -> Iterator[None]:
    """A folder for rows that nobody else uses."""
    before = os.environ.get(scratch.VARIABLE)
    os.environ[scratch.VARIABLE] = tempfile.mkdtemp(prefix="simulated-")
    try:
        yield
    finally:
        shutil.rmtree(os.environ[scratch.VARIABLE], ignore_errors=True)
        if before is None:
            del os.environ[scratch.VARIABLE]
        else:
            os.environ[scratch.VARIABLE] = before


def play(seed: int, classes: Callable[[], Samplers] = Samplers) -> Snapshot:
    """One schedule from its seed; raises Wrong with the seed in its text."""
    with own_scratch():
        world = SamplerWorld(seed, classes=classes())
        try:
            return world.run()
        except Wrong as wrong:
            raise Wrong(f"seed {seed}: {wrong}") from None
        finally:
            for process in world.processes:
                world.kill(process)
