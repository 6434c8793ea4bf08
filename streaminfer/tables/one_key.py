"""One key of a keyed posterior as a snapshot of its own, from its shard and its rows."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from streaminfer.spec import Spec
from streaminfer.tables.kinds import require_proper
from streaminfer.tables.pooled_prior import model_of
from streaminfer.variational.forgetting.decay import Clocks
from streaminfer.variational.snapshot import Snapshot


def of_key(spec: Spec, shard: Snapshot, clocks: Clocks, n_events: int, version: int) -> Snapshot:
    """A key with its statistics by clock; raises DomainError if they give no posterior."""
    model = spec.model
    total = reduce(model.merge, (clock.statistics for clock in clocks.values()), model.empty())
    require_proper(model_of(spec, shard), total)
    kept = clocks if spec.inference.forget is not None else {}
    return replace(
        shard,
        version=version,
        payload=replace(shard.payload, statistics=total, clocks=kept),
        counts=replace(shard.counts, n_events=n_events),
    )


def unseen(spec: Spec, shard: Snapshot) -> Snapshot:
    """A key without events: what all keys start from."""
    return replace(
        shard,
        payload=replace(shard.payload, statistics=spec.model.empty(), clocks={}),
        counts=replace(shard.counts, n_events=0),
    )
