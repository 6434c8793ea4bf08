"""The payload of a snapshot: the statistics of all events, and what methods and forgetting keep beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaminfer.models.model import Vector
from streaminfer.sampling.pooled.shown import Sampled
from streaminfer.variational.forgetting.decay import Clocks
from streaminfer.variational.tree import Tree


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """What a posterior is computed from. Rows of keys or words are elsewhere (see `arena`)."""

    statistics: Vector
    """Those of all events; by svi a blend of those of one event; with words the head of all rows (see `lda.words`)."""
    clocks: Clocks = field(default_factory=dict)
    """The statistics by clock, if old events are forgotten."""
    n_steps: int = 0
    """Steps of svi so far."""
    average: Vector | None = None
    """The average of the blends of svi, if steps are constant."""
    n_batches: int = 0
    """Batches of memoized, in all partitions."""
    batches: Mapping[int, Tree] = field(default_factory=dict)
    """These batches by partition; only a master has them."""
    prior: str | None = None
    """The section of a spec for the prior that was fitted to the keys; None: it is the spec's own."""

    sampled: Sampled | None = None
    """What a posterior of draws has beside its statistics, which are moments."""

    @property
    def n_effective(self) -> float | None:
        """The sum of the events' weights; None if each event counts once."""
        return sum(clock.n_effective for clock in self.clocks.values()) if self.clocks else None
