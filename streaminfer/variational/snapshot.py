"""A snapshot: the posterior with all that says which events it contains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from streaminfer.variational.drift import watching
from streaminfer.variational.forgetting.decay import Clocks
from streaminfer.variational.tree import Tree


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Statistics of all events below the frontier. Version 0 is the prior, before anything was published.

    `read_to` is the master's position in the increments topic; counts are of events, `n_lost` of positions, `n_dropped`
    of increments, `n_unconverged` of this pass alone. `created_at` is in milliseconds since 1970. Where old events are
    forgotten, `clocks` holds the statistics by clock, and `statistics` is all of them together. Where scores are
    watched, `drift` says what came of it. By svi `statistics` are a blend of those of one event after `n_steps`, and
    `average` is that of the blends where steps are constant. Where there are several epochs, the frontier is of pass
    `epoch`, and each goes from `starts` to `ends`, once those are fixed. By memoized, `batches` are the batches of each
    partition, `n_batches` in all, in the hands of a master, and `statistics` is their sum. Of a keyed posterior it is
    one shard, with `n_keys` keys whose statistics are elsewhere, after `n_expired` were dropped; `stamps` are the
    newest timestamps by partition where keys expire, 0 without a key of this shard; `prior` is the section of a spec
    that says it, where it is fitted to the keys, when there were `n_pooled` events; it is of the keys as they are where
    that is `n_events`. `score` is the sum of the events' log predictive densities, each under the posterior before its
    minibatch; of keys nobody knows it. `topic_id` says which incarnation of the data topic all of this is of, empty
    before anybody has looked. Where times matter, `reached` is what each partition's events say of them.
    """

    fingerprint: str
    version: int
    statistics: NDArray[np.float64]
    frontier: Mapping[int, int]
    read_to: int = 0
    n_events: int = 0
    n_lost: int = 0
    n_dead_lettered: int = 0
    n_damped: int = 0
    n_rejected: int = 0
    n_unconverged: int = 0
    n_dropped: int = 0
    n_keys: int = 0
    n_expired: int = 0
    n_steps: int = 0
    score: float = 0.0
    staleness: int = 0
    created_at: int = 0
    clocks: Clocks = field(default_factory=dict)
    drift: watching.State | None = None
    prior: str | None = None
    n_pooled: int = 0
    stamps: Mapping[int, int] = field(default_factory=dict)
    average: NDArray[np.float64] | None = None
    epoch: int = 0
    starts: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    batches: Mapping[int, Tree] = field(default_factory=dict)
    n_batches: int = 0
    topic_id: str = ""
    reached: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    @property
    def n_effective(self) -> float:
        """How many events the posterior rests on: the sum of their weights."""
        return sum(clock.n_effective for clock in self.clocks.values()) if self.clocks else self.n_events


def together(shards: Sequence[Snapshot], shared: bool = False) -> Snapshot:
    """One or more shards of a posterior as one: each partition's frontier is the lowest.

    Every shard passes every position, and so counts all that was lost and all dead letters; events it counts its own,
    or where they are `shared` all of them, as every document has words of many shards.
    """
    if len(shards) == 1:
        return shards[0]
    known = set.intersection(*(set(shard.frontier) for shard in shards))
    lowest = {index: min(shards, key=lambda shard: shard.frontier[index]) for index in sorted(known)}
    return replace(
        shards[0],
        version=max(shard.version for shard in shards),
        frontier={index: shard.frontier[index] for index, shard in lowest.items()},
        reached={index: shard.reached[index] for index, shard in lowest.items() if index in shard.reached},
        n_lost=max(shard.n_lost for shard in shards),
        n_dead_lettered=max(shard.n_dead_lettered for shard in shards),
        created_at=max(shard.created_at for shard in shards),
        n_events=(min if shared else sum)(shard.n_events for shard in shards),
        n_rejected=(max if shared else sum)(shard.n_rejected for shard in shards),
        n_unconverged=(max if shared else sum)(shard.n_unconverged for shard in shards),
        n_dropped=sum(shard.n_dropped for shard in shards),
        n_keys=sum(shard.n_keys for shard in shards),
        n_pooled=sum(shard.n_pooled for shard in shards),
        n_expired=sum(shard.n_expired for shard in shards),
        score=sum(shard.score for shard in shards),
    )
