"""Schedules on topics of words with several shards. A document has every word as often as a power of two says, so the
count of each word in every snapshot tells exactly which documents it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streaminfer.runtime import names
from streaminfer.runtime.following import manifests
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.following.rows import AllRows
from streaminfer.spec import Spec, parse_spec
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.lda import words
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.snapshots import Assembler
from tests.simulation.epochs_world import EpochsSubscriber, EpochsWorld
from tests.simulation.keyed_world import KeyedSubscriber
from tests.simulation.subscribers import Subscriber, Wrong
from tests.simulation.world import Services, World

WORDS = [f"word-{i}" for i in range(7)]


class WordWorld(World):
    """Documents go to any partition."""

    def make_spec(self) -> Spec:
        rng = self.rng
        return parse_spec(
            {
                "name": "simulated",
                "data": {"partitions": rng.randint(1, 3)},
                "model": {"kind": "lda", "field": "words", "topics": 2, "shards": rng.randint(1, 3)},
                "inference": {
                    "method": rng.choice(["svb", "svb", "svi"]),
                    "minibatch": rng.choice([1, 3, 8]),
                    "linger_ms": rng.choice([0, 20]),
                    "snapshot_ms": rng.choice([1, 50]),
                },
            }
        )

    def make_subscriber(self) -> Subscriber:
        return WordSubscriber(self)

    def event(self, value: int) -> dict[str, Any]:
        return {"words": dict.fromkeys(WORDS, value)}


class WordSubscriber(KeyedSubscriber):
    """Checks each shard at each of its manifests: its words, and what the manifest says of all of them."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        spec, size = world.spec, kind_of(world.spec).statistics_size(world.spec)
        self._assemblers = [Assembler(spec.fingerprint, size) for _ in self._partitions]

    def poll(self) -> None:
        super().poll()
        if len(self._shards) == len(self._partitions):
            self.newest = manifests.whole(self._world.spec, [self._shards[shard] for shard in sorted(self._shards)])

    def _check_keys(self, shard: int, snapshot: Snapshot) -> None:
        spec, found = self._world.spec, self._held[shard]
        assert spec.words is not None
        head = words.head_of(spec.words, snapshot.payload.statistics)
        if head.n_words != sum(int(numbers[0]) for numbers in found.values()) % words.MODULUS:
            raise Wrong(f"shard {shard} says {head.n_words} words")
        if spec.inference.method == "svb":
            self._check_sums(shard, head)
        for word, held in self._expected(shard, snapshot):
            below, missing = 0, []
            for (partition, offset), value in self._world.value_at.items():
                if value and offset < snapshot.frontier.positions.get(partition, 0):
                    below |= value
                    if not held & value and offset >= self._firsts[shard].get(partition, 0):
                        missing.append((partition, offset))
            if held & ~below or held.bit_count() != snapshot.n_events:
                raise Wrong(f"{word} counted twice, or beyond the frontier: {held:b} of {below:b}, {snapshot.n_events}")
            if not all(self._removed(*place) for place in missing) or len(missing) > snapshot.counts.n_lost:
                raise Wrong(f"lost: {missing} are below the frontier of shard {shard} ({snapshot.counts.n_lost} lost)")

    def _expected(self, shard: int, snapshot: Snapshot) -> Iterator[tuple[str, int]]:
        """The words that a shard must have, with their counts."""
        for word in WORDS:
            if snapshot.n_events and names.shard_of(self._world.spec, word.encode()) == shard:
                numbers = self._held[shard].get(word)
                yield word, 0 if numbers is None else int(numbers[0])

    def _check_sums(self, shard: int, head: words.Head) -> None:
        """Each word is divided among the topics, and the sums are those of the rows."""
        rows = np.array(list(self._held[shard].values()) or np.zeros((0, key_records.NUMBERS + 2)))
        statistics = rows[:, key_records.NUMBERS :]
        if not np.allclose(statistics.sum(axis=1), rows[:, 0], rtol=1e-9):
            raise Wrong(f"shard {shard} has {statistics.sum(axis=1)} of {rows[:, 0]} words")
        if not np.allclose(statistics.sum(axis=0), head.sums, rtol=1e-9):
            raise Wrong(f"shard {shard} says {head.sums} and has {statistics.sum(axis=0)}")


class WordEpochsWorld(EpochsWorld):
    """Several passes over documents; there is one shard."""

    def make_spec(self) -> Spec:
        rng = self.rng
        return parse_spec(
            {
                "name": "simulated",
                "data": {"partitions": rng.randint(1, 3)},
                "model": {"kind": "lda", "field": "words", "topics": 2},
                "inference": {
                    "method": self.method,
                    "epochs": rng.randint(2, 4),
                    "minibatch": rng.choice([2, 3, 8]),
                    "linger_ms": 0 if self.method == "memoized" else rng.choice([0, 20]),
                    "snapshot_ms": rng.choice([1, 50]),
                    "max_staleness": rng.choice([0, 8]),
                },
            }
        )

    def make_subscriber(self) -> Subscriber:
        return WordEpochsSubscriber(self)

    def event(self, value: int) -> dict[str, Any]:
        """A word of its own, and one that all have."""
        return {"words": {f"{value.bit_length()}": 1, "all": 2}}


class WordEpochsSubscriber(EpochsSubscriber):
    """The rows of the words tell which documents are there."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._rows = AllRows(world.spec)
        self._follower = Follower(world.spec, world.bus, rows=self._rows)

    def poll(self) -> None:
        """The rows are those of the newest snapshot alone."""
        for snapshot in self._follower.poll(0.0)[-1:]:
            self._check(snapshot)
            self.newest = snapshot

    def _held(self, snapshot: Snapshot) -> int:
        arena, found = self._rows.arena, 0
        sums = {word: float(arena.statistics[row].sum()) for word, row in arena.rows.items()}
        n_all = sums.pop(b"all", 0.0)
        for word, times in sums.items():
            if min(abs(times), abs(times - 1)) > 1e-9:
                raise Wrong(f"counted twice, or in part: word {word!r} of one document has {times!r}")
            found += (1 << (int(word) - 1)) * round(times)
        if abs(n_all - 2 * found.bit_count()) > 1e-9:
            raise Wrong(f"{found.bit_count()} documents have {n_all!r} of the word that each has twice")
        total = n_all + sum(sums.values())
        if abs(float(snapshot.payload.statistics[: arena.statistics.shape[1]].sum()) - total) > 1e-9:
            raise Wrong(f"the rows sum to {total!r}, the head says {snapshot.payload.statistics}")
        return found


def play_words(seed: int, services: Services | None = None) -> Snapshot:
    """One schedule from its seed; raises Wrong with the seed in its text."""
    try:
        return WordWorld(seed, services or Services()).run()
    except Wrong as wrong:
        raise Wrong(f"seed {seed}: {wrong}") from None
