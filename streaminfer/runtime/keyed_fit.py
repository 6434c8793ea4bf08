"""The posteriors of all keys from rows at hand: the fold of a worker and the masters of all shards, without a bus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from streaminfer.models.keys import label_of
from streaminfer.runtime import intake, keyed_minibatch, names
from streaminfer.runtime.key_view import of_key
from streaminfer.runtime.manifests import whole
from streaminfer.runtime.pooling import pooled
from streaminfer.runtime.view import PosteriorSnapshot, keyed_matrix
from streaminfer.spec import Spec
from streaminfer.variational import epochs, fold, keyed, rules
from streaminfer.variational.arena import Arena
from streaminfer.variational.forgetting import Clock
from streaminfer.variational.increment import Increment
from streaminfer.variational.reached import Reached, believe
from streaminfer.variational.snapshot import Snapshot


@dataclass
class _Shard:
    """What a master has: the counts, a row for every key, and when each changed last."""

    arena: Arena
    snapshot: Snapshot
    versions: dict[bytes, int] = field(default_factory=dict)


class KeyedPosteriors(Mapping[str, PosteriorSnapshot]):
    """The posterior of every key, by the key; a whole number is the key that its decimal text is."""

    def __init__(self, spec: Spec, shards: list[_Shard]) -> None:
        self.spec, self._shards = spec, shards
        self.snapshot = whole(spec, [shard.snapshot for shard in shards])
        """The counts of all keys together."""

    def __repr__(self) -> str:
        return f"<{self.name} version {self.version}: {self.n_events} events of {len(self)} keys>"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def n_events(self) -> int:
        return self.snapshot.n_events

    def __len__(self) -> int:
        return sum(len(shard.arena) for shard in self._shards)

    def __iter__(self) -> Iterator[str]:
        """The keys in the order of their bytes in UTF-8."""
        labels = sorted(chain.from_iterable(shard.arena.rows for shard in self._shards))
        return (label.decode() for label in labels)

    def __contains__(self, key: object) -> bool:
        try:
            label = label_of(key)
        except (TypeError, ValueError):
            return False
        return label in self._shard(label).arena.rows

    def __getitem__(self, key: str | int) -> PosteriorSnapshot:
        if key not in self:
            raise KeyError(key)
        label = label_of(key)
        shard, found = self._shard(label), {}
        n_events = 0.0
        for entry in shard.arena.of(label):
            found[entry.clock] = Clock(entry.statistics.copy(), entry.n_effective, entry.newest)
            n_events += entry.n_events
        snapshot = of_key(self.spec, shard.snapshot, found, int(n_events), shard.versions[label])
        return PosteriorSnapshot(self.spec, snapshot, label.decode())

    def unseen(self, key: str | int) -> PosteriorSnapshot:
        """What a key without events starts from: the prior, or one that is fitted to the other keys of its shard."""
        label = label_of(key)
        return PosteriorSnapshot(self.spec, replace(self._shard(label).snapshot, n_events=0), label.decode())

    def _shard(self, label: bytes) -> _Shard:
        return self._shards[names.shard_of(self.spec, label)]


def fit_keys(spec: Spec, rows: Iterable[Mapping[str, Any]]) -> KeyedPosteriors:
    """The posteriors of all keys given rows, as `fit` has them."""
    if spec.key is not None and spec.key.expire_after is not None:
        raise ValueError("key.expire_after: goes by the timestamps of records, and rows have none: leave it out")
    first = epochs.met(fold.start(spec.model, spec.fingerprint), {0: 0}, kept=False)
    shards = [_Shard(Arena(spec.model.size), first) for _ in range(spec.shards)]
    source, at, reached = iter(rows), 0, Reached()
    while batch := list(islice(source, spec.inference.minibatch)):
        taken = _taken(spec, batch, at, reached)
        reached = taken.reached
        for shard, what in zip(shards, keyed_minibatch.by_shard(spec, taken), strict=True):
            _fold(spec, shard, at, at + len(batch), what)
        at += len(batch)
    for shard in shards:
        if spec.key is not None and spec.key.pooled and len(shard.arena):
            prior = pooled(spec, shard.arena)
            shard.snapshot = replace(shard.snapshot, prior=prior, n_pooled=shard.snapshot.n_events)
        shard.snapshot = replace(shard.snapshot, frontier={}, starts={}, ends={})
    return KeyedPosteriors(spec, shards)


def _taken(spec: Spec, batch: list[Mapping[str, Any]], at: int, reached: Reached) -> intake.Intake:
    """Rows as a worker takes them in; they have no record with a timestamp."""
    events, labels = keyed_matrix(spec.event_fields, batch, at)
    times = None
    if spec.time_field is not None:
        believed = believe(events[:, -1], reached)
        events, times, reached = events[:, :-1], believed.times, believed.state
    return intake.by_key(intake.Intake(events, times, [], reached=reached), labels, np.zeros(len(batch)))


def _fold(spec: Spec, shard: _Shard, begin: int, end: int, what: Mapping[str, Any]) -> None:
    version = shard.snapshot.version
    increment = Increment(
        fingerprint=spec.fingerprint, writer="fit", topic="", partition=0, begin=begin, end=end, n_dead_lettered=0,
        n_lost=0, base_version=version, score=0.0, **what,
    )  # fmt: skip
    rule = keyed.Rules(rules.of(spec.inference.forget))
    snapshot, _ = keyed.add(spec.model, shard.arena, shard.snapshot, increment, rule)
    shard.snapshot = replace(snapshot, version=version + 1)
    shard.versions.update((label, version + 1) for label in what["keys"].labels)
