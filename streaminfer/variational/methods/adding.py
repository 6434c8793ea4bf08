"""The fold `add`: eta <- eta + delta, less what is forgotten, with a guard of the family's domain (see `svb`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import DomainError, Model
from streaminfer.variational.admission import proper, within
from streaminfer.variational.forgetting.decay import Clocks, Forgetting, total
from streaminfer.variational.held import Held
from streaminfer.variational.increment import Increment
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.settings import Inference
from streaminfer.variational.snapshot import Snapshot

DAMPINGS: Final = tuple(2.0**-k for k in range(1, 11))


def fold(
    model: Model,
    _inference: Inference,
    snapshot: Snapshot,
    increment: Increment,
    fresh_from: int,
    forgetting: Forgetting | None,
) -> tuple[Snapshot, Outcome]:
    """eta <- eta + delta; what is held of earlier events is decayed first, never the prior.

    A sum outside the family's domain is left to the worker to compute again if its base is older than version
    `fresh_from`. Otherwise it is damped, or else taken as no change.
    """
    if not increment.n_events:
        return snapshot, Outcome.FOLDED
    held, outcome = _guarded(model, snapshot.payload, increment, fresh_from, forgetting)
    absorbed = 0 if outcome is Outcome.REJECTED else increment.n_events
    counts = replace(snapshot.counts, n_events=snapshot.n_events + absorbed)
    return replace(snapshot, payload=held, counts=counts), outcome


def passed(model: Model, snapshot: Snapshot, increment: Increment, forgetting: Forgetting) -> Snapshot:
    """A snapshot whose clocks have passed an increment that added nothing."""
    held = snapshot.payload
    return replace(snapshot, payload=_taken(model, held, forgetting.passed(model, held.clocks, increment)))


def _guarded(
    model: Model, held: Held, increment: Increment, fresh_from: int, forgetting: Forgetting | None
) -> tuple[Held, Outcome]:
    """What is held with the increment if that gives a proper posterior; otherwise with a damped one, or as it was.

    An increment that does not depend on its base is statistics of events: it must be proper by itself too.
    """
    try:
        merged = _with(model, held, increment, forgetting)
    except DomainError:
        return held, Outcome.REJECTED
    if not model.needs_base:
        panes = increment.payload.panes.values()
        given = [(increment.payload.statistics, increment.n_events), *((p.statistics, p.n_events) for p in panes)]
        fits = proper(model, *(each for each, _ in given), merged.statistics) and all(
            within(model, each[None], n).all() for each, n in given
        )
        return (merged, Outcome.FOLDED) if fits else (held, Outcome.REJECTED)
    if proper(model, *_changed(held, merged)):
        return merged, Outcome.FOLDED
    if increment.provenance.base_version < fresh_from:
        return held, Outcome.STALE_BASE
    for weight in DAMPINGS:
        change = replace(increment.payload, statistics=model.scale(increment.payload.statistics, weight))
        damped = _with(model, held, replace(increment, payload=change), forgetting)
        if proper(model, *_changed(held, damped)):
            return damped, Outcome.DAMPED
    return held, Outcome.REJECTED


def _changed(before: Held, after: Held) -> list[NDArray[np.float64]]:
    """What must be proper for a master to restore it: the sum, and each clock that is another now."""
    clocks = after.clocks.items() if len(after.clocks) > 1 else ()
    return [after.statistics, *(clock.statistics for index, clock in clocks if clock is not before.clocks.get(index))]


def _with(model: Model, held: Held, increment: Increment, forgetting: Forgetting | None) -> Held:
    if forgetting is None:
        return replace(held, statistics=model.merge(held.statistics, increment.payload.statistics))
    return _taken(model, held, forgetting.fold(model, held.clocks, increment))


def _taken(model: Model, held: Held, clocks: Clocks) -> Held:
    """What is held by changed clocks."""
    return held if clocks is held.clocks else replace(held, statistics=total(model, clocks), clocks=clocks)
