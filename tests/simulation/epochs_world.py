"""Schedules with several passes over the data. Each event's value is a power of two, so every snapshot tells which
events it holds, and that none of them counts twice in any pass."""

from __future__ import annotations

from dataclasses import dataclass

from streaminfer.bus.protocol import Partition
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from tests.simulation.subscribers import Subscriber, Wrong
from tests.simulation.world import EVENTS, Services, World
from tests.variational.tallied import tallied


@dataclass
class EpochsWorld(World):
    """Data comes to rest in the middle of the chaos, or when all is there."""

    method: str = "memoized"
    turns = (40, 400)
    fair_rounds = 4000

    def make_spec(self) -> Spec:
        rng = self.rng
        lingering = 0 if self.method == "memoized" else rng.choice([0, 20])
        return tallied(
            self.method,
            rng.randint(2, 4),
            rng.randint(1, 3),
            minibatch=rng.choice([2, 3, 8]),
            linger_ms=lingering,
            snapshot_ms=rng.choice([1, 50]),
            max_staleness=rng.choice([0, 8]),
        )

    def run(self) -> Snapshot:
        """In half of the schedules chaos comes when the first half of the events was passed, maybe several times."""
        if self.rng.random() < 0.5:
            self._calm()
        return super().run()

    def _calm(self) -> None:
        while self.sent < EVENTS // 2:
            self.produce()
        self.chaotic = False
        for _ in range(self.rng.randint(20, 200)):
            for process in self.processes:
                self.step(process)
            self.clock.advance(0.5)
        self.chaotic = True

    def produce(self) -> None:
        """The second half comes late, often after the ends are fixed."""
        if not self.chaotic or self.sent < EVENTS // 2 or self.rng.random() < 0.1:
            super().produce()

    def make_subscriber(self) -> Subscriber:
        return EpochsSubscriber(self)


class EpochsSubscriber(Subscriber):
    """What is held never shrinks, though the frontier goes back to the start of each pass."""

    def _check(self, snapshot: Snapshot) -> None:
        old = self.newest
        if old is not None:
            then, now = old.frontier, snapshot.frontier
            if (now.epoch, snapshot.version) < (then.epoch, old.version) or snapshot.version == old.version:
                raise Wrong(f"pass {then.epoch} of version {old.version}, then {now.epoch} of {snapshot.version}")
            back = [p for p, at in then.positions.items() if now.positions.get(p, -1) < at]
            if back and now.epoch == then.epoch:
                raise Wrong(f"frontier shrank from {dict(then.positions)} to {dict(now.positions)}")
            if any(now.ends.get(p) != end for p, end in then.ends.items()):
                raise Wrong(f"the ends {dict(old.frontier.ends)} became {dict(snapshot.frontier.ends)}")
            if snapshot.n_events < old.n_events:
                raise Wrong(f"{old.n_events} events became {snapshot.n_events}")
        for partition, at in snapshot.frontier.positions.items():
            self._first.setdefault(partition, at)
        self._check_events(snapshot)

    def _check_events(self, snapshot: Snapshot) -> None:
        reached = dict(snapshot.frontier.positions)
        if snapshot.frontier.epoch:
            reached = {p: max(at, snapshot.frontier.ends[p]) for p, at in reached.items()}
        if snapshot.frontier.starts != {p: self._first[p] for p in reached}:
            raise Wrong(f"passes start at {dict(snapshot.frontier.starts)}, not {self._first}")
        below = {place: value for place, value in self._world.value_at.items() if self._inside(place, reached)}
        assert isinstance(self._world, EpochsWorld)
        if self._world.method == "memoized":
            held = self._held(snapshot)
            if held & ~sum(below.values()) or held.bit_count() != snapshot.n_events:
                raise Wrong(f"counted twice, or beyond the frontier: {held:b}, {snapshot.n_events} events")
            missing = [place for place, value in below.items() if value & ~held]
            if not all(self._removed(*place) for place in missing):
                raise Wrong(f"lost: {missing}")
        n_missing = sum(value > 0 for value in below.values()) - snapshot.n_events
        if not 0 <= n_missing <= snapshot.counts.n_lost:
            raise Wrong(f"{snapshot.n_events} events, {snapshot.counts.n_lost} lost, and {n_missing} are missing")
        gone = sum(self._world.broker.log(Partition(self._world.data, p)).start - at for p, at in self._first.items())
        if snapshot.counts.n_lost > gone:
            raise Wrong(f"{snapshot.counts.n_lost} lost, and retention removed {gone}")

    def _held(self, snapshot: Snapshot) -> int:
        """The values of all events in a snapshot."""
        return int(snapshot.payload.statistics[0])

    def _inside(self, place: tuple[int, int], reached: dict[int, int]) -> bool:
        partition, offset = place
        return self._first.get(partition, offset + 1) <= offset < reached.get(partition, 0)


def play(
    seed: int, method: str, services: Services | None = None, world_of: type[EpochsWorld] = EpochsWorld
) -> Snapshot:
    """One schedule from its seed; raises Wrong with the seed in its text."""
    world = world_of(seed, services or Services(), method=method)
    try:
        found = world.run()
        if found.frontier.epoch != world.spec.inference.n_epochs - 1:
            raise Wrong(f"it ended in pass {found.frontier.epoch}")
        return found
    except Wrong as wrong:
        raise Wrong(f"seed {seed}: {wrong}") from None
