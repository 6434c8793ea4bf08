"""How the master takes increments into a posterior, by the fold of the spec's method: add, blend or replace.

An increment continues the frontier of its partition or it is dropped; nothing is held. So every event is in the
posterior exactly once, whatever workers repeat. With several epochs, it is visited once in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from streaminfer.models.model import AnyModel, DomainError, Model
from streaminfer.variational import epochs
from streaminfer.variational.admission import admit, proper
from streaminfer.variational.drift import watching
from streaminfer.variational.drift.reaction import hastened
from streaminfer.variational.forgetting.decay import Forgetting
from streaminfer.variational.held import Held
from streaminfer.variational.increment import Increment
from streaminfer.variational.methods import Fold, adding, method_of
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.settings import PLAIN, Drift, Inference
from streaminfer.variational.snapshot import Snapshot, dropped

LARGEST_SCORE: Final = 1e300
"""The largest score of a snapshot, of either sign: so that the scores of a thousand shards have a sum."""


def start(model: AnyModel, fingerprint: str) -> Snapshot:
    """The prior: no event, no partition known."""
    return Snapshot(fingerprint, 0, Held(model.empty()))


def add(
    model: Model,
    snapshot: Snapshot,
    increment: Increment,
    fresh_from: int,
    forgetting: Forgetting | None = None,
    watch: Drift | None = None,
    inference: Inference = PLAIN,
    base_events: int | None = None,
) -> tuple[Snapshot, Outcome]:
    """A snapshot with the increment if that begins at the frontier, else no change but a count.

    With `base_events`, the events that the increment's base had, one whose base is too old is left to the worker to
    compute again (see `base.too_old`). With forgetting, what is held of earlier events is decayed first (see
    `forgetting`), never the prior. With `watch`, scores are watched for drift, and after an alarm more may be forgotten
    (see `reaction`). `fresh_from` is the oldest base on which a worker need not compute again (see `adding`).
    """
    fold = method_of(inference).fold
    return _added(fold, model, snapshot, increment, fresh_from, forgetting, watch, inference, base_events)


def add_all(
    model: Model,
    snapshot: Snapshot,
    increments: Sequence[Increment],
    forgetting: Forgetting | None = None,
    inference: Inference = PLAIN,
) -> tuple[Snapshot, list[Outcome]] | None:
    """The same as `add` of one after the other, bit by bit, if none depends on a base and drift is not watched.

    It is told for all at once whether their statistics are proper, and of the sum in the end: that of proper
    statistics is, but for roundings and overflows. None: it is not, and only `add` finds out why.
    """
    try:
        are_proper = adding.are_proper(model, increments)
    except DomainError:
        return None
    now, outcomes = snapshot, []
    for increment, is_proper in zip(increments, are_proper.tolist(), strict=True):
        fold = partial(adding.fold, is_proper=is_proper)
        now, outcome = _added(fold, model, now, increment, 0, forgetting, None, inference, None)
        outcomes.append(outcome)
    return (now, outcomes) if proper(model, now.payload.statistics) else None


def _added(
    fold: Fold,
    model: Model,
    snapshot: Snapshot,
    increment: Increment,
    fresh_from: int,
    forgetting: Forgetting | None,
    watch: Drift | None,
    inference: Inference,
    base_events: int | None,
) -> tuple[Snapshot, Outcome]:
    method, taken = method_of(inference), snapshot
    outcome = admit(
        model, snapshot, increment, inference.n_epochs, lambda: method.fits(snapshot, increment), base_events
    )
    if outcome is Outcome.FOLDED:
        now = _reacting(snapshot, forgetting, watch)
        taken, outcome = fold(model, inference, snapshot, increment, fresh_from, now)
    if not outcome.moved:
        return dropped(snapshot), outcome
    if forgetting is not None and (outcome is Outcome.REJECTED or not increment.n_events):
        taken = adding.passed(model, taken, increment, forgetting)
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
    old, new = before.counts, increment.counts
    behind = before.version - increment.provenance.base_version if new.n_events else 0
    counts = replace(
        taken.counts,
        n_lost=old.n_lost + (new.n_lost if first else 0),
        n_dead_lettered=old.n_dead_lettered + (new.n_dead_lettered if first else 0),
        n_damped=old.n_damped + (new.n_events if outcome is Outcome.DAMPED else 0),
        n_rejected=max(0, old.n_rejected + (rejected if first else old.n_events - taken.n_events)),
        n_unconverged=old.n_unconverged + (0 if rejected else new.n_unconverged),
        score=_bounded(old.score + (new.score if absorbed else 0.0)),
        staleness=max(old.staleness, behind),
    )
    frontier, drift = before.frontier.after(increment.provenance), watched(before, increment, absorbed, watch)
    return replace(taken, frontier=frontier, counts=counts, drift=drift)


def _bounded(score: float) -> float:
    """A sum of scores that is finite, whatever was summed."""
    return min(max(score, -LARGEST_SCORE), LARGEST_SCORE)


def _reacting(snapshot: Snapshot, forgetting: Forgetting | None, watch: Drift | None) -> Forgetting | None:
    """How earlier events are forgotten now: faster for a while after an alarm, if the spec says so."""
    seen = snapshot.drift
    if forgetting is None or watch is None or watch.react is None or seen is None or seen.n_alarms == 0:
        return forgetting
    return hastened(forgetting, watch.react, snapshot.n_events - seen.alarm_at)


def watched(snapshot: Snapshot, increment: Increment, absorbed: int, watch: Drift | None) -> watching.State | None:
    """What is known of drift once an increment of `absorbed` events is in."""
    if watch is None:
        return None
    state = watching.started(snapshot.drift, watch.block_events)
    if absorbed == 0:
        return state
    came = increment.provenance
    scored = watching.Scored(came.partition, came.end, absorbed, increment.counts.score)
    return watching.step(state, scored, watch.events_per_false_alarm, snapshot.n_events + absorbed)
