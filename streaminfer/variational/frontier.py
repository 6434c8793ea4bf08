"""How far a posterior has come in its data topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from streaminfer.variational.forgetting.reached import Reached
from streaminfer.variational.increment import Provenance


@dataclass(frozen=True, slots=True)
class Frontier:
    """The events that a posterior contains. Each mapping is by data partition."""

    positions: Mapping[int, int] = field(default_factory=dict)
    """The position up to which events are in the posterior, in the pass `epoch`."""
    epoch: int = 0
    """The current pass over the data, from 0."""
    starts: Mapping[int, int] = field(default_factory=dict)
    """Where every pass starts, if there may be several."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """Where every pass ends, once that is fixed."""
    reached: Mapping[int, Reached] = field(default_factory=dict)
    """The time that each partition has reached, if times matter."""
    stamps: Mapping[int, int] = field(default_factory=dict)
    """The newest record's timestamp in milliseconds since 1970, if keys expire; 0 before the shard's first key."""
    topic_id: str = ""
    """The incarnation of the data topic that all of this is about; empty before a master has looked."""

    def after(self, increment: Provenance) -> Frontier:
        """The frontier once an increment is folded that begins at it."""
        index, reached = increment.partition, self.reached
        return replace(
            self,
            positions={**self.positions, index: increment.end},
            reached={**reached, index: increment.reached} if increment.reached else reached,
        )


def lowest(frontiers: Sequence[Frontier]) -> Frontier:
    """What several shards have all reached: each partition's lowest position. All else is that of the first."""
    known = set.intersection(*(set(each.positions) for each in frontiers))
    behind = {index: min(frontiers, key=lambda each: each.positions[index]) for index in sorted(known)}
    return replace(
        frontiers[0],
        positions={index: each.positions[index] for index, each in behind.items()},
        reached={index: each.reached[index] for index, each in behind.items() if index in each.reached},
    )
