"""A snapshot: a posterior, and what says which events it contains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from streaminfer.variational.counts import Totals
from streaminfer.variational.drift import watching
from streaminfer.variational.frontier import Frontier, lowest
from streaminfer.variational.held import Held


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One version of a posterior, or of one shard of it. Version 0 is the prior, before anything was published."""

    fingerprint: str
    """That of the spec."""
    version: int
    payload: Held
    """What the posterior is computed from. Only its method and its table look into it."""
    frontier: Frontier = field(default_factory=Frontier)
    counts: Totals = field(default_factory=Totals)
    drift: watching.State | None = None
    """What the scores say of drift, if they are watched."""
    read_to: int = 0
    """The master's position in the increments topic."""
    created_at: int = 0
    """Milliseconds since 1970."""

    @property
    def n_events(self) -> int:
        return self.counts.n_events

    @property
    def weighted(self) -> bool:
        """Whether events count by weights, and not once each."""
        return self.payload.n_effective is not None

    @property
    def n_effective(self) -> float:
        """How many events the posterior rests on: the sum of their weights."""
        n_effective = self.payload.n_effective
        return self.n_events if n_effective is None else n_effective


def dropped(snapshot: Snapshot) -> Snapshot:
    """A snapshot after one more increment that was not folded."""
    return replace(snapshot, counts=replace(snapshot.counts, n_dropped=snapshot.counts.n_dropped + 1))


def together(shards: Sequence[Snapshot], shared: bool = False) -> Snapshot:
    """One or more shards of a posterior as one; what is not counted or reached is that of the first.

    Every shard passes every position, and so counts all lost positions and all dead letters. It counts its own events,
    or all events if they are `shared`, as every document has words of many shards.
    """
    if len(shards) == 1:
        return shards[0]
    return replace(
        shards[0],
        version=max(shard.version for shard in shards),
        frontier=lowest([shard.frontier for shard in shards]),
        counts=_summed([shard.counts for shard in shards], shared),
        created_at=max(shard.created_at for shard in shards),
    )


def _summed(shards: Sequence[Totals], shared: bool) -> Totals:
    return replace(
        shards[0],
        n_events=(min if shared else sum)(each.n_events for each in shards),
        n_dead_lettered=max(each.n_dead_lettered for each in shards),
        n_lost=max(each.n_lost for each in shards),
        n_unconverged=(max if shared else sum)(each.n_unconverged for each in shards),
        score=sum(each.score for each in shards),
        n_rejected=(max if shared else sum)(each.n_rejected for each in shards),
        n_dropped=sum(each.n_dropped for each in shards),
        n_keys=sum(each.n_keys for each in shards),
        n_expired=sum(each.n_expired for each in shards),
        n_pooled=sum(each.n_pooled for each in shards),
    )
