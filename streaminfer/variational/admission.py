"""Whether an increment is folded: it continues the frontier, its base is not too old, and the result is proper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import AnyModel, DomainError, Model, is_counting
from streaminfer.variational.base import too_old
from streaminfer.variational.increment import Increment
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot

ROOM: Final = 1 + 1e-9
"""What roundings may add to a sum of weights, times."""


def admit(
    model: AnyModel,
    snapshot: Snapshot,
    increment: Increment,
    n_epochs: int,
    fits: Callable[[], bool],
    base_events: int | None,
) -> Outcome:
    """FOLDED if an increment may be folded, else why it is dropped.

    `fits` says whether one that continues the frontier is whole, as the method wants it. With `base_events`, the events
    that the increment's base had, one whose base is too old is left to the worker to compute again.
    """
    outcome = place(snapshot, increment, n_epochs)
    if outcome is not Outcome.FOLDED:
        return outcome
    if not fits():
        return Outcome.AHEAD
    learned_from_base = model.needs_base and increment.n_events > 0
    if learned_from_base and base_events is not None and too_old(model, snapshot.n_events, base_events):
        return Outcome.STALE_BASE
    return Outcome.FOLDED


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
