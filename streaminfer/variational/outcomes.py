"""What becomes of an increment, and what every fold asks: does it continue the frontier, is the result proper?"""

from __future__ import annotations

from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import AnyModel, DomainError, Model, is_counting
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot

ROOM: Final = 1 + 1e-9
"""What roundings may add to a sum of weights, times."""


class Outcome(Enum):
    """What became of an increment."""

    FOLDED = "folded"
    DAMPED = "damped"
    REJECTED = "rejected"
    BEHIND = "behind"
    AHEAD = "ahead"
    UNKNOWN_PARTITION = "unknown-partition"
    STALE_BASE = "stale-base"

    @property
    def moved(self) -> bool:
        """Whether the frontier moved."""
        return self in _MOVED


_MOVED: Final = {Outcome.FOLDED, Outcome.DAMPED, Outcome.REJECTED}


def place(snapshot: Snapshot, increment: Increment, n_epochs: int = 1) -> Outcome:
    """How an increment stands to the frontier of its partition, (epoch, position).

    Once the ends are fixed, an increment that begins before an end must not reach beyond it. Only in the last pass may
    one begin at an end.
    """
    frontier, came = snapshot.frontier, increment.provenance
    position = frontier.positions.get(came.partition)
    if position is None:
        return Outcome.UNKNOWN_PARTITION
    here, there = (frontier.epoch, position), (came.epoch, came.begin)
    if here != there:
        return Outcome.BEHIND if there < here else Outcome.AHEAD
    end = frontier.ends.get(came.partition)
    if end is not None and came.end > end and (position < end or frontier.epoch < n_epochs - 1):
        return Outcome.AHEAD
    return Outcome.FOLDED


def within(model: AnyModel, statistics: NDArray[np.float64], counts: float | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether each row of statistics can be of N events, as far as the model can tell."""
    if not is_counting(model):
        return np.ones(len(statistics), dtype=bool)
    return np.asarray(model.total_weight(statistics) <= counts * ROOM, dtype=bool)


def proper(model: Model, *statistics: NDArray[np.float64]) -> bool:
    """Whether there is a posterior of each; none is made, as that takes several times longer than to say so."""
    try:
        return bool(model.proper(np.stack(statistics)).all())
    except DomainError:
        return False
