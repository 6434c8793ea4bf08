"""Schedules on a keyed posterior with several shards. Each event's value is a power of two, so every snapshot of every
shard tells exactly which events it holds, and their keys."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from streaminfer.bus.protocol import Partition, Record
from streaminfer.runtime import names
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.snapshot import Snapshot, together
from streaminfer.wire import key_records
from streaminfer.wire.snapshots import MANIFEST, Assembler
from tests.simulation.subscribers import Subscriber, Wrong
from tests.simulation.world import Services, World

KEYS = 7


class KeyedWorld(World):
    """Events of a key go to any partition."""

    def make_spec(self) -> Spec:
        rng = self.rng
        shards = rng.randint(1, 3)
        return parse_spec(
            {
                "name": "simulated",
                "data": {"partitions": rng.randint(1, 3)},
                "model": {"kind": "poisson", "field": "k"},
                "key": {"field": "city", "shards": shards},
                "inference": {
                    "minibatch": rng.choice([1, 3, 8]),
                    "linger_ms": rng.choice([0, 20]),
                    "snapshot_ms": rng.choice([1, 50]),
                },
            }
        )

    def make_subscriber(self) -> Subscriber:
        return KeyedSubscriber(self)

    def event(self, value: int) -> dict[str, Any]:
        return {"k": value, "city": city_of(value)}


def city_of(value: int) -> str:
    return f"city-{value.bit_length() ** 2 % KEYS}"


class KeyedSubscriber(Subscriber):
    """Reads all of every shard's log, and checks each shard at each of its manifests."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        spec = world.spec
        topic = names.topic(spec, "posterior")
        self._partitions = [Partition(topic, shard) for shard in range(spec.shards)]
        self._reader = world.bus.reader(dict.fromkeys(self._partitions, 0))
        self._assemblers = [Assembler(spec.fingerprint, spec.model.size) for _ in self._partitions]
        self._held: list[dict[str, np.ndarray]] = [{} for _ in self._partitions]
        self._shards: dict[int, Snapshot] = {}
        self._firsts: list[dict[int, int]] = [{} for _ in self._partitions]

    def poll(self) -> None:
        for part in self._reader.poll(0.0).slices:
            for record in part.records:
                self._take(part.partition.index, record)
        if len(self._shards) == len(self._partitions):
            self.newest = together([self._shards[shard] for shard in sorted(self._shards)])

    def _take(self, shard: int, record: Record) -> None:
        if record.key == MANIFEST:
            snapshot = self._assemblers[shard].add(record.value)
            assert snapshot is not None
            self._check_shard(shard, snapshot)
            self._shards[shard] = snapshot
            return
        place = key_records.place_of(record.key)
        assert place is not None
        assert record.value is not None
        found = key_records.decode([place.label], [record.value], self._world.spec.model.size)
        self._held[shard][place.label.decode()] = found.numbers[0]

    def _check_shard(self, shard: int, snapshot: Snapshot) -> None:
        old = self._shards.get(shard)
        if old is not None and snapshot.version <= old.version:
            raise Wrong(f"version of shard {shard} went from {old.version} to {snapshot.version}")
        now, then = snapshot.frontier.positions, {} if old is None else old.frontier.positions
        if any(now.get(p, -1) < at for p, at in then.items()):
            raise Wrong(f"frontier of shard {shard} shrank from {dict(then)} to {dict(now)}")
        for partition, at in now.items():
            self._firsts[shard].setdefault(partition, at)
        if snapshot.counts.n_keys != len(self._held[shard]):
            raise Wrong(f"shard {shard} says {snapshot.counts.n_keys} keys and has {len(self._held[shard])}")
        self._check_keys(shard, snapshot)

    def _check_keys(self, shard: int, snapshot: Snapshot) -> None:
        below, missing, counted = defaultdict(int), [], 0
        for (partition, offset), value in self._world.value_at.items():
            city = city_of(value)
            mine = value and names.shard_of(self._world.spec, city.encode()) == shard
            if mine and offset < snapshot.frontier.positions.get(partition, 0):
                below[city] |= value
                held = self._held[shard].get(city)
                lacks = held is None or not int(held[key_records.NUMBERS]) & value
                if lacks and offset >= self._firsts[shard].get(partition, 0):
                    missing.append((partition, offset))
        for city, numbers in self._held[shard].items():
            held, n_events = int(numbers[key_records.NUMBERS]), int(numbers[0])
            counted += n_events
            if held & ~below[city] or held.bit_count() != n_events:
                raise Wrong(f"{city} counted twice, or beyond the frontier: {held:b} of {below[city]:b}, {n_events}")
        if counted != snapshot.n_events:
            raise Wrong(f"shard {shard} says {snapshot.n_events} events and its keys have {counted}")
        if not all(self._removed(*place) for place in missing) or len(missing) > snapshot.counts.n_lost:
            raise Wrong(f"lost: {missing} are below the frontier of shard {shard} ({snapshot.counts.n_lost} lost)")


def play_keyed(seed: int, services: Services | None = None) -> Snapshot:
    """One schedule from its seed; raises Wrong with the seed in its text."""
    try:
        return KeyedWorld(seed, services or Services()).run()
    except Wrong as wrong:
        raise Wrong(f"seed {seed}: {wrong}") from None
