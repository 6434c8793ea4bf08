"""How the master takes increments into the posterior: the fold `add`, and `blend` where the method is svi.

An increment continues the frontier of its partition or it is dropped; nothing is held. So every event is in the
posterior exactly once, whatever workers repeat.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import DomainError, Model
from streaminfer.spec import Drift, Inference
from streaminfer.variational import blend, drift
from streaminfer.variational.base import too_old
from streaminfer.variational.forgetting import Clocks, Forgetting, total
from streaminfer.variational.increment import Increment
from streaminfer.variational.reaction import hastened
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


class Held(NamedTuple):
    """The part of a snapshot that is inferred."""

    statistics: NDArray[np.float64]
    clocks: Clocks


def add(
    model: Model,
    snapshot: Snapshot,
    increment: Increment,
    fresh_from: int,
    forgetting: Forgetting | None = None,
    watch: Drift | None = None,
    inference: Inference | None = None,
    base_events: int | None = None,
) -> tuple[Snapshot, Outcome]:
    """eta <- eta + delta where the increment begins at the frontier, else no change but a count.

    By svi, as `inference` says, it is a step instead (see `blend`). With `base_events`, the events that the increment's
    base had, one whose base is too old is left to the worker to compute again (see `base.too_old`).

    With forgetting, what is held of earlier events is decayed first (see `forgetting`), never the prior. With `watch`,
    scores are watched for drift, and after an alarm more may be forgotten (see `reaction`).

    A sum outside the family's domain (seed's errata on asynchronous SVB) is left to the worker to compute again if its
    base is older than version `fresh_from`, else damped, else taken as no change; all are counted.
    """
    outcome = place(snapshot, increment)
    held, stepped = Held(snapshot.statistics, snapshot.clocks), snapshot
    if outcome is Outcome.FOLDED and increment.n_events:
        if model.needs_base and base_events is not None and too_old(snapshot.n_events, base_events):
            outcome = Outcome.STALE_BASE
        elif inference is not None and inference.method == "svi":
            stepped, outcome = _stepped(model, inference, snapshot, increment)
            held = held._replace(statistics=stepped.statistics)
        else:
            held, outcome = _guarded(model, held, increment, fresh_from, _reacting(snapshot, forgetting, watch))
    if not outcome.moved:
        return replace(snapshot, n_dropped=snapshot.n_dropped + 1), outcome
    absorbed = 0 if outcome is Outcome.REJECTED else increment.n_events
    if not absorbed and forgetting is not None:
        held = _taken(model, held, forgetting.passed(model, held.clocks, increment))
    folded = replace(
        stepped,
        statistics=held.statistics,
        clocks=held.clocks,
        frontier={**snapshot.frontier, increment.partition: increment.end},
        n_events=snapshot.n_events + absorbed,
        n_lost=snapshot.n_lost + increment.n_lost,
        n_dead_lettered=snapshot.n_dead_lettered + increment.n_dead_lettered,
        n_damped=snapshot.n_damped + (increment.n_events if outcome is Outcome.DAMPED else 0),
        n_rejected=snapshot.n_rejected + (increment.n_events if outcome is Outcome.REJECTED else 0),
        score=snapshot.score + (increment.score if absorbed else 0.0),
        staleness=max(snapshot.staleness, snapshot.version - increment.base_version),
        drift=watched(snapshot, increment, absorbed, watch),
    )
    return folded, outcome


def _reacting(snapshot: Snapshot, forgetting: Forgetting | None, watch: Drift | None) -> Forgetting | None:
    """How earlier events are forgotten now: faster for a while after an alarm, where the spec says so."""
    seen = snapshot.drift
    if forgetting is None or watch is None or watch.react is None or seen is None or seen.n_alarms == 0:
        return forgetting
    return hastened(forgetting, watch.react, snapshot.n_events - seen.alarm_at)


def watched(snapshot: Snapshot, increment: Increment, absorbed: int, watch: Drift | None) -> drift.State | None:
    """What is known of drift once an increment of `absorbed` events is in."""
    if watch is None:
        return None
    state = drift.started(snapshot.drift, watch.block_events)
    if absorbed == 0:
        return state
    scored = drift.Scored(increment.partition, increment.end, absorbed, increment.score)
    return drift.step(state, scored, watch.events_per_false_alarm, snapshot.n_events + absorbed)


def place(snapshot: Snapshot, increment: Increment) -> Outcome:
    """Where an increment stands to the frontier of its partition."""
    frontier = snapshot.frontier.get(increment.partition)
    if frontier is None:
        return Outcome.UNKNOWN_PARTITION
    if increment.begin < frontier:
        return Outcome.BEHIND
    return Outcome.AHEAD if increment.begin > frontier else Outcome.FOLDED


def _guarded(
    model: Model, held: Held, increment: Increment, fresh_from: int, forgetting: Forgetting | None
) -> tuple[Held, Outcome]:
    """What is held with the increment where that gives a proper posterior; otherwise with a damped one, or as it was.

    An increment that does not depend on its base is statistics of events: it must be proper by itself too.
    """
    try:
        merged = _with(model, held, increment, forgetting)
    except DomainError:
        return held, Outcome.REJECTED
    if not model.needs_base:
        given = (pane.statistics for pane in increment.panes.values())
        fits = _proper(model, increment.statistics, *given, merged.statistics)
        return (merged, Outcome.FOLDED) if fits else (held, Outcome.REJECTED)
    if _proper(model, merged.statistics):
        return merged, Outcome.FOLDED
    if increment.base_version < fresh_from:
        return held, Outcome.STALE_BASE
    for weight in DAMPINGS:
        change = replace(increment, statistics=model.scale(increment.statistics, weight))
        damped = _with(model, held, change, forgetting)
        if _proper(model, damped.statistics):
            return damped, Outcome.DAMPED
    return held, Outcome.REJECTED


def _stepped(model: Model, inference: Inference, snapshot: Snapshot, increment: Increment) -> tuple[Snapshot, Outcome]:
    """A snapshot one step on where the increment gives a proper posterior, else as it was.

    Steps blend statistics of events, all of which are proper: so one that is not is not damped.
    """
    if not _proper(model, increment.statistics):
        return snapshot, Outcome.REJECTED
    stepped = blend.step(model, inference, snapshot, increment)
    counted = replace(stepped, n_events=snapshot.n_events + increment.n_events)
    if not _proper(model, blend.iterate(model, inference, counted), blend.published(model, inference, counted)):
        return snapshot, Outcome.REJECTED
    return stepped, Outcome.FOLDED


def _with(model: Model, held: Held, increment: Increment, forgetting: Forgetting | None) -> Held:
    if forgetting is None:
        return Held(model.merge(held.statistics, increment.statistics), held.clocks)
    return _taken(model, held, forgetting.fold(model, held.clocks, increment))


def _taken(model: Model, held: Held, clocks: Clocks) -> Held:
    """What is held by changed clocks."""
    return held if clocks is held.clocks else Held(total(model, clocks), clocks)


def _proper(model: Model, *statistics: NDArray[np.float64]) -> bool:
    """Whether there is a posterior of each; none is made, as that takes several times longer than to say so."""
    try:
        return bool(model.proper(np.stack(statistics)).all())
    except DomainError:
        return False
