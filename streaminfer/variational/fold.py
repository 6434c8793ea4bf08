"""The fold `add`: how the master takes increments into the posterior.

An increment continues the frontier of its partition or it is dropped; nothing is held. So every event is in the
posterior exactly once, whatever workers repeat.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import DomainError, Model
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot

DAMPINGS: Final = tuple(2.0**-k for k in range(1, 11))


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


def start(model: Model, fingerprint: str) -> Snapshot:
    """The prior: no event, no partition known."""
    return Snapshot(fingerprint, 0, model.empty(), {})


def add(model: Model, snapshot: Snapshot, increment: Increment, fresh_from: int) -> tuple[Snapshot, Outcome]:
    """eta <- eta + delta where the increment begins at the frontier, else no change but a count.

    A sum outside the family's domain (seed's errata on asynchronous SVB) is left to the worker to compute again if its
    base is older than version `fresh_from`, else damped, else taken as no change; all are counted.
    """
    outcome = _place(snapshot, increment)
    statistics = snapshot.statistics
    if outcome is Outcome.FOLDED and increment.n_events:
        statistics, outcome = _guarded(model, snapshot, increment, fresh_from)
    if not outcome.moved:
        return replace(snapshot, n_dropped=snapshot.n_dropped + 1), outcome
    absorbed = 0 if outcome is Outcome.REJECTED else increment.n_events
    folded = replace(
        snapshot,
        statistics=statistics,
        frontier={**snapshot.frontier, increment.partition: increment.end},
        n_events=snapshot.n_events + absorbed,
        n_lost=snapshot.n_lost + increment.n_lost,
        n_dead_lettered=snapshot.n_dead_lettered + increment.n_dead_lettered,
        n_damped=snapshot.n_damped + (increment.n_events if outcome is Outcome.DAMPED else 0),
        n_rejected=snapshot.n_rejected + (increment.n_events if outcome is Outcome.REJECTED else 0),
        score=snapshot.score + (increment.score if absorbed else 0.0),
        staleness=max(snapshot.staleness, snapshot.version - increment.base_version),
    )
    return folded, outcome


def _place(snapshot: Snapshot, increment: Increment) -> Outcome:
    """Where an increment stands to the frontier of its partition."""
    frontier = snapshot.frontier.get(increment.partition)
    if frontier is None:
        return Outcome.UNKNOWN_PARTITION
    if increment.begin < frontier:
        return Outcome.BEHIND
    return Outcome.AHEAD if increment.begin > frontier else Outcome.FOLDED


def _guarded(
    model: Model, snapshot: Snapshot, increment: Increment, fresh_from: int
) -> tuple[NDArray[np.float64], Outcome]:
    """The merged statistics where they give a proper posterior; otherwise damped ones, or the old ones.

    An increment that does not depend on its base is statistics of events: it must be proper by itself too.
    """
    change = increment.statistics
    merged = model.merge(snapshot.statistics, change)
    if not model.needs_base:
        fits = _proper(model, change) and _proper(model, merged)
        return (merged, Outcome.FOLDED) if fits else (snapshot.statistics, Outcome.REJECTED)
    if _proper(model, merged):
        return merged, Outcome.FOLDED
    if increment.base_version < fresh_from:
        return snapshot.statistics, Outcome.STALE_BASE
    for weight in DAMPINGS:
        damped = model.merge(snapshot.statistics, model.scale(change, weight))
        if _proper(model, damped):
            return damped, Outcome.DAMPED
    return snapshot.statistics, Outcome.REJECTED


def _proper(model: Model, statistics: NDArray[np.float64]) -> bool:
    try:
        model.posterior(statistics)
    except DomainError:
        return False
    return True
