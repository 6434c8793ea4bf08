"""Reads the posterior of a schedule as a user would, and holds every snapshot against the events."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from streaminfer.bus.protocol import Partition, Record
from streaminfer.runtime.following.follower import Follower
from streaminfer.variational.forgetting.reached import Reached, believe
from streaminfer.variational.snapshot import Snapshot

if TYPE_CHECKING:
    from tests.simulation.world import World


class Wrong(AssertionError):
    """What a schedule proves against the services; the text starts with the kind of fault found."""


class Subscriber:
    """Reads the posterior topic as a user would and holds every snapshot against the events."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._follower = Follower(world.spec, world.bus)
        self.newest: Snapshot | None = None
        self._first: dict[int, int] = {}
        self._met: dict[int, Reached] = {}

    def poll(self) -> None:
        for snapshot in self._follower.poll(0.0):
            self._check(snapshot)
            self.newest = snapshot

    def frontier(self) -> object:
        return dict(self.newest.frontier.positions) if self.newest else None

    def final(self) -> Snapshot:
        assert self.newest is not None
        return self.newest

    def _check(self, snapshot: Snapshot) -> None:
        old = self.newest
        if old is not None and snapshot.version <= old.version:
            raise Wrong(f"version went from {old.version} to {snapshot.version}")
        if old is not None and any(
            snapshot.frontier.positions.get(p, -1) < at for p, at in old.frontier.positions.items()
        ):
            raise Wrong(f"frontier shrank from {dict(old.frontier.positions)} to {dict(snapshot.frontier.positions)}")
        for partition, at in snapshot.frontier.positions.items():
            self._first.setdefault(partition, at)
            self._met.setdefault(partition, snapshot.frontier.reached.get(partition, ()))
        self._check_events(snapshot)

    def _check_events(self, snapshot: Snapshot) -> None:
        held = int(snapshot.payload.statistics[0])
        expected = [
            value
            for (partition, offset), value in self._world.value_at.items()
            if offset < snapshot.frontier.positions.get(partition, 0)
        ]
        below = sum(expected)
        if held & ~below or held.bit_count() != snapshot.n_events:
            raise Wrong(f"counted twice, or beyond the frontier: {held:b} of {below:b}, {snapshot.n_events} events")
        missing = [
            (partition, offset)
            for (partition, offset), value in self._world.value_at.items()
            if value & ~held and self._first.get(partition, 0) <= offset < snapshot.frontier.positions.get(partition, 0)
        ]
        removed = [self._removed(partition, offset) for partition, offset in missing]
        if not all(removed) or len(missing) > snapshot.counts.n_lost:
            raise Wrong(
                f"lost: {missing} are below the frontier and not in the posterior ({snapshot.counts.n_lost} lost)"
            )

    def _times(self, partition: int, records: Sequence[Record]) -> list[float]:
        """The times of events as they count, all of a partition in their order."""
        before = self._met.get(partition, ())
        stamps = np.array([record.timestamp / 1000 for record in records])
        return believe(stamps, before).times.tolist() if records else []  # type: ignore[no-any-return]

    def _removed(self, partition: int, offset: int) -> bool:
        return offset < self._world.broker.log(Partition(self._world.data, partition)).start


class ForgettingSubscriber(Subscriber):
    """Holds every snapshot against the weights of all events below its frontier."""

    def _check_events(self, snapshot: Snapshot) -> None:
        values, ages = [], []
        ((kind, half_life),) = (self._world.forget or {}).items()
        for partition, frontier in snapshot.frontier.positions.items():
            log = self._world.broker.log(Partition(self._world.data, partition))
            good = [r for r in log.records if r.offset < frontier and self._world.value_at[partition, r.offset]]
            values += [self._world.value_at[partition, r.offset] for r in good]
            by_events = range(len(good) - 1, -1, -1)
            ages += by_events if kind == "half_life_events" else [-time for time in self._times(partition, good)]
        youngest = min(ages, default=0) if kind == "half_life_seconds" else 0
        weights = [0.5 ** ((age - youngest) / half_life) for age in ages]
        total = sum(weight * value for weight, value in zip(weights, values, strict=True))
        pairs = [
            (snapshot.payload.statistics[0], total),
            (snapshot.n_effective, sum(weights)),
            (snapshot.n_events, len(values)),
        ]
        if any(abs(found - wanted) > 1e-9 * wanted for found, wanted in pairs):
            raise Wrong(f"weighted otherwise: {pairs}")


class WindowSubscriber(Subscriber):
    """Holds every snapshot against the events between the begin of its window and its frontier."""

    def _check_events(self, snapshot: Snapshot) -> None:
        world = self._world
        ((kind, span),) = (world.forget or {}).items()
        good: list[tuple[int, int, float]] = []
        for partition, frontier in snapshot.frontier.positions.items():
            records = world.broker.log(Partition(world.data, partition)).records
            inside = [r for r in records if r.offset < frontier and world.value_at[partition, r.offset]]
            by_events = [float(r.offset) for r in inside]
            places = by_events if kind == "window_events" else self._times(partition, inside)
            values = [world.value_at[partition, r.offset] for r in inside]
            good += [(partition, value, place) for value, place in zip(values, places, strict=True)]
        width = math.ceil(span / 64) if kind == "window_events" else span / 64
        newest = max((place for _, _, place in good), default=0.0)
        ends = (
            snapshot.frontier.positions
            if kind == "window_events"
            else dict.fromkeys(snapshot.frontier.positions, newest)
        )
        counted = [v for partition, v, place in good if place // width >= (ends[partition] - span) // width]
        found = (snapshot.payload.statistics[0], snapshot.n_effective, snapshot.n_events)
        wanted = (sum(counted), len(counted), len(good))
        if found != wanted:
            raise Wrong(f"another window: {found} is not {wanted}")
