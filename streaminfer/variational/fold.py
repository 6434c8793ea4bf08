"""How the master takes increments into the posterior: the fold `add`, by svi `blend`, by memoized `replace`.

An increment continues the frontier of its partition or it is dropped; nothing is held. So every event is in the
posterior exactly once, whatever workers repeat. Where there are several epochs, it is visited once in each.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Counting, DomainError, Model
from streaminfer.spec import Drift, Inference
from streaminfer.variational import blend, drift, epochs, memoized
from streaminfer.variational.base import too_old
from streaminfer.variational.forgetting import Clocks, Forgetting, total
from streaminfer.variational.increment import Increment
from streaminfer.variational.reaction import hastened
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.tree import Tree

DAMPINGS: Final = tuple(2.0**-k for k in range(1, 11))
ROOM: Final = 1 + 1e-9
"""What roundings may add to a sum of weights, times."""
LARGEST_SCORE: Final = 1e300
"""Of a snapshot, whatever its sign: so that those of a thousand shards have a sum."""


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

    By svi, as `inference` says, it is a step instead (see `blend`), by memoized a batch that is replaced (see
    `memoized`). With `base_events`, the events that the increment's base had, one whose base is too old is left to the
    worker to compute again (see `base.too_old`).

    With forgetting, what is held of earlier events is decayed first (see `forgetting`), never the prior. With `watch`,
    scores are watched for drift, and after an alarm more may be forgotten (see `reaction`).

    A sum outside the family's domain (seed's errata on asynchronous SVB) is left to the worker to compute again if its
    base is older than version `fresh_from`, else damped, else taken as no change; all are counted.
    """
    method, n_epochs = ("svb", 1) if inference is None else (inference.method, inference.n_epochs)
    outcome, taken = place(snapshot, increment, n_epochs), snapshot
    if outcome is Outcome.FOLDED and method == "memoized":
        begins = snapshot.batches.get(increment.partition, Tree()).begins
        outcome = outcome if memoized.fits(begins, snapshot, increment) else Outcome.AHEAD
    if outcome is Outcome.FOLDED:
        needs_base = model.needs_base and increment.n_events > 0
        if needs_base and base_events is not None and too_old(model, snapshot.n_events, base_events):
            outcome = Outcome.STALE_BASE
        elif inference is not None and method == "memoized":
            taken, outcome = _visited(model, inference, snapshot, increment)
        elif inference is not None and method == "svi":
            taken, outcome = _stepped(model, inference, snapshot, increment)
        else:
            taken, outcome = _added(model, snapshot, increment, fresh_from, _reacting(snapshot, forgetting, watch))
    if not outcome.moved:
        return replace(snapshot, n_dropped=snapshot.n_dropped + 1), outcome
    if forgetting is not None and (outcome is Outcome.REJECTED or not increment.n_events):
        held = Held(taken.statistics, taken.clocks)
        held = _taken(model, held, forgetting.passed(model, held.clocks, increment))
        taken = replace(taken, statistics=held.statistics, clocks=held.clocks)
    return accounted(taken, snapshot, increment, outcome, watch), outcome


def accounted(
    taken: Snapshot, before: Snapshot, increment: Increment, outcome: Outcome, watch: Drift | None
) -> Snapshot:
    """A snapshot that an increment was taken into, with the frontier after it and all that is counted.

    What is counted of events is counted once, in the first pass over them; what a later one takes after all is
    rejected no more.
    """
    first = epochs.counts(before, increment)
    rejected = increment.n_events if outcome is Outcome.REJECTED else 0
    absorbed = increment.n_events - rejected if first else 0
    return replace(
        taken,
        frontier={**before.frontier, increment.partition: increment.end},
        reached={**before.reached, increment.partition: increment.reached} if increment.reached else before.reached,
        n_lost=before.n_lost + (increment.n_lost if first else 0),
        n_dead_lettered=before.n_dead_lettered + (increment.n_dead_lettered if first else 0),
        n_damped=before.n_damped + (increment.n_events if outcome is Outcome.DAMPED else 0),
        n_rejected=max(0, before.n_rejected + (rejected if first else before.n_events - taken.n_events)),
        n_unconverged=before.n_unconverged + (0 if rejected else increment.n_unconverged),
        score=_bounded(before.score + (increment.score if absorbed else 0.0)),
        staleness=max(before.staleness, before.version - increment.base_version if increment.n_events else 0),
        drift=watched(before, increment, absorbed, watch),
    )


def _bounded(score: float) -> float:
    """A sum of scores that is finite, whatever was summed."""
    return min(max(score, -LARGEST_SCORE), LARGEST_SCORE)


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


def place(snapshot: Snapshot, increment: Increment, n_epochs: int = 1) -> Outcome:
    """Where an increment stands to the frontier of its partition, (epoch, position).

    Once the ends are fixed none may reach beyond them from before, and in no pass but the last any may begin there.
    """
    frontier = snapshot.frontier.get(increment.partition)
    if frontier is None:
        return Outcome.UNKNOWN_PARTITION
    here, there = (snapshot.epoch, frontier), (increment.epoch, increment.begin)
    if here != there:
        return Outcome.BEHIND if there < here else Outcome.AHEAD
    end = snapshot.ends.get(increment.partition)
    if end is not None and increment.end > end and (frontier < end or snapshot.epoch < n_epochs - 1):
        return Outcome.AHEAD
    return Outcome.FOLDED


def _added(
    model: Model, snapshot: Snapshot, increment: Increment, fresh_from: int, forgetting: Forgetting | None
) -> tuple[Snapshot, Outcome]:
    if not increment.n_events:
        return snapshot, Outcome.FOLDED
    held = Held(snapshot.statistics, snapshot.clocks)
    held, outcome = _guarded(model, held, increment, fresh_from, forgetting)
    absorbed = 0 if outcome is Outcome.REJECTED else increment.n_events
    n_events = snapshot.n_events + absorbed
    return replace(snapshot, statistics=held.statistics, clocks=held.clocks, n_events=n_events), outcome


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
        panes = increment.panes.values()
        given = [(increment.statistics, increment.n_events), *((p.statistics, p.n_events) for p in panes)]
        fits = _proper(model, *(each for each, _ in given), merged.statistics) and all(
            within(model, each[None], n).all() for each, n in given
        )
        return (merged, Outcome.FOLDED) if fits else (held, Outcome.REJECTED)
    if _proper(model, *_changed(held, merged)):
        return merged, Outcome.FOLDED
    if increment.base_version < fresh_from:
        return held, Outcome.STALE_BASE
    for weight in DAMPINGS:
        change = replace(increment, statistics=model.scale(increment.statistics, weight))
        damped = _with(model, held, change, forgetting)
        if _proper(model, *_changed(held, damped)):
            return damped, Outcome.DAMPED
    return held, Outcome.REJECTED


def _changed(before: Held, after: Held) -> list[NDArray[np.float64]]:
    """What must be proper for a master to restore it: the sum, and each clock that is another now."""
    clocks = after.clocks.items() if len(after.clocks) > 1 else ()
    return [after.statistics, *(clock.statistics for index, clock in clocks if clock is not before.clocks.get(index))]


def _stepped(model: Model, inference: Inference, snapshot: Snapshot, increment: Increment) -> tuple[Snapshot, Outcome]:
    """A snapshot one step on where the increment gives a proper posterior, else as it was.

    Steps blend statistics of events, all of which are proper: so one that is not is not damped.
    """
    if not increment.n_events:
        return snapshot, Outcome.FOLDED
    if not _proper(model, increment.statistics):
        return snapshot, Outcome.REJECTED
    stepped = blend.step(model, inference, snapshot, increment)
    n_new = increment.n_events if epochs.counts(snapshot, increment) else 0
    counted = replace(stepped, n_events=snapshot.n_events + n_new)
    if not _proper(model, blend.iterate(model, inference, counted), blend.published(model, inference, counted)):
        return snapshot, Outcome.REJECTED
    return counted, Outcome.FOLDED


def _visited(model: Model, inference: Inference, snapshot: Snapshot, increment: Increment) -> tuple[Snapshot, Outcome]:
    """A snapshot with the increment's statistics as those of its batch where that is proper, else as it was."""
    n_epochs = inference.n_epochs
    if not increment.n_events or _proper(model, increment.statistics):
        visited = memoized.visited(model, snapshot, increment, n_epochs)
        if not increment.n_events or _proper(model, visited.statistics):
            return visited, Outcome.FOLDED
    return memoized.visited(model, snapshot, increment, n_epochs, taken=False), Outcome.REJECTED


def _with(model: Model, held: Held, increment: Increment, forgetting: Forgetting | None) -> Held:
    if forgetting is None:
        return Held(model.merge(held.statistics, increment.statistics), held.clocks)
    return _taken(model, held, forgetting.fold(model, held.clocks, increment))


def _taken(model: Model, held: Held, clocks: Clocks) -> Held:
    """What is held by changed clocks."""
    return held if clocks is held.clocks else Held(total(model, clocks), clocks)


def within(model: Model, statistics: NDArray[np.float64], counts: float | NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether each row of statistics can be of so many events, as far as the model can tell."""
    if not isinstance(model, Counting):
        return np.ones(len(statistics), dtype=bool)
    return np.asarray(model.total_weight(statistics) <= counts * ROOM, dtype=bool)


def _proper(model: Model, *statistics: NDArray[np.float64]) -> bool:
    """Whether there is a posterior of each; none is made, as that takes several times longer than to say so."""
    try:
        return bool(model.proper(np.stack(statistics)).all())
    except DomainError:
        return False
