"""The fold `add`: eta <- eta + delta, less what is forgotten, with a guard of the family's domain (see `svb`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import DomainError, Model, Vector
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
    is_proper: bool | None = None,
) -> tuple[Snapshot, Outcome]:
    """eta <- eta + delta; what is held of earlier events is decayed first, never the prior.

    A sum outside the family's domain is left to the worker to compute again if its base is older than version
    `fresh_from`. Otherwise it is damped, or else taken as no change.

    With `is_proper` it is known whether the increment is statistics of events, and the sum is not looked at.
    """
    if not increment.n_events:
        return snapshot, Outcome.FOLDED
    held, outcome = _guarded(model, snapshot.payload, increment, fresh_from, forgetting, is_proper)
    absorbed = 0 if outcome is Outcome.REJECTED else increment.n_events
    counts = replace(snapshot.counts, n_events=snapshot.n_events + absorbed)
    return replace(snapshot, payload=held, counts=counts), outcome


def are_proper(model: Model, increments: Sequence[Increment]) -> NDArray[np.bool_]:
    """Whether each of some increments that do not depend on a base is statistics of events; raises DomainError.

    To look at many at once takes hardly longer than to look at one.
    """
    given = [(i, *each) for i, increment in enumerate(increments) for each in _given(increment)]
    statistics, n_events = np.stack([each for _, each, _ in given]), np.array([n for _, _, n in given], dtype=float)
    good = model.proper(statistics) & within(model, statistics, n_events)
    found = np.ones(len(increments), dtype=bool)
    found[[i for (i, _, _), fits in zip(given, good.tolist(), strict=True) if not fits]] = False
    return found


def _given(increment: Increment) -> list[tuple[Vector, int]]:
    """The statistics of an increment, those of its panes, and of how many events each may be."""
    came = increment.payload
    return [(came.statistics, increment.n_events), *((pane.statistics, pane.n_events) for pane in came.panes.values())]


def passed(model: Model, snapshot: Snapshot, increment: Increment, forgetting: Forgetting) -> Snapshot:
    """A snapshot whose clocks have passed an increment that added nothing."""
    held = snapshot.payload
    return replace(snapshot, payload=_taken(model, held, forgetting.passed(model, held.clocks, increment)))


def _guarded(
    model: Model,
    held: Held,
    increment: Increment,
    fresh_from: int,
    forgetting: Forgetting | None,
    is_proper: bool | None,
) -> tuple[Held, Outcome]:
    """What is held with the increment if that gives a proper posterior; otherwise with a damped one, or as it was.

    An increment that does not depend on its base is statistics of events: it must be proper by itself too.
    """
    try:
        merged = _with(model, held, increment, forgetting)
    except DomainError:
        return held, Outcome.REJECTED
    if not model.needs_base:
        if is_proper is None:
            given = _given(increment)
            is_proper = proper(model, *(each for each, _ in given), merged.statistics) and all(
                within(model, each[None], n).all() for each, n in given
            )
        return (merged, Outcome.FOLDED) if is_proper else (held, Outcome.REJECTED)
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
