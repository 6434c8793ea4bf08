"""One key of a keyed posterior as a snapshot of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from streaminfer.runtime.pooling import model_of
from streaminfer.spec import Spec
from streaminfer.variational.forgetting import Clocks
from streaminfer.variational.snapshot import Snapshot


def of_key(spec: Spec, shard: Snapshot, clocks: Clocks, n_events: int, version: int) -> Snapshot:
    """What a shard has of a key: its statistics by clock and all together. Raises DomainError where they are none."""
    model = spec.model
    total = reduce(model.merge, (clock.statistics for clock in clocks.values()), model.empty())
    model_of(spec, shard).posterior(total)
    kept = clocks if spec.inference.forget is not None else {}
    return replace(shard, version=version, statistics=total, n_events=n_events, clocks=kept)
