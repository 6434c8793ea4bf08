"""How the master takes increments of words into their rows: few of them, and as if it were all (see `words`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import AnyModel, Matrix, Vector
from streaminfer.variational import epochs
from streaminfer.variational.admission import admit
from streaminfer.variational.arena import NONE, Arena, Rows
from streaminfer.variational.fold import accounted
from streaminfer.variational.increment import ByKey, Increment
from streaminfer.variational.lda.batches import Batch, BatchPlace
from streaminfer.variational.lda.words import (
    MODULUS,
    Head,
    ShardRows,
    averages,
    constant,
    counted,
    head_of,
    held,
    proper_rows,
)
from streaminfer.variational.methods import memoized
from streaminfer.variational.methods.blend import TAIL
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.settings import Drift, Inference
from streaminfer.variational.snapshot import Snapshot, dropped

ROOM: Final = 1 + 1e-6
"""What roundings may add to the sum of probabilities, times."""

DRIFT: Final = 1e-13
"""Roundings of visits below this are left in a row, so that the end of a pass does not publish all of them again."""


def add(
    model: AnyModel,
    inference: Inference,
    block: ShardRows,
    increment: Increment,
    base_events: int | None = None,
    watch: Drift | None = None,
) -> tuple[Snapshot, Outcome]:
    """The fold of `fold.add`, `blend.step` and `memoized.visited` for the words of an increment.

    Arena and batches are changed if it is folded. An increment counts all documents of its minibatch, even if few of
    its words belong to this shard.
    """
    snapshot = block.snapshot

    def fits() -> bool:
        if block.batches is None:
            return True
        return memoized.fits(block.batches.begins(increment.provenance.partition), snapshot, increment)

    outcome = admit(model, snapshot, increment, inference.n_epochs, fits, base_events)
    keys = increment.payload.keys
    if outcome is not Outcome.FOLDED or keys is None:
        return dropped(snapshot), outcome
    taken, outcome = _visited(model, inference, block, increment, keys)
    return accounted(taken, snapshot, increment, outcome, watch), outcome


def _visited(
    model: AnyModel, inference: Inference, block: ShardRows, increment: Increment, keys: ByKey
) -> tuple[Snapshot, Outcome]:
    """A snapshot with the increment if that is proper, else as it was.

    As in `memoized.visited`, a batch that has lost documents keeps the statistics of its last visit.
    """
    arena, snapshot, batches = block
    first = epochs.counts(snapshot, increment)
    where, old = BatchPlace(increment.provenance.partition, increment.provenance.begin), None
    if batches is not None and not first:
        old = batches.get(where)
        if increment.counts.n_lost or (old is not None and increment.n_events < old.n_events):
            return snapshot, Outcome.FOLDED
    found = _changed(model, inference, block, increment, keys, old) if increment.n_events else None
    outcome = Outcome.REJECTED if increment.n_events and found is None else Outcome.FOLDED
    taken, batch = snapshot, Batch(0, np.empty(0, dtype=np.intp), np.empty(0), np.empty((0, model.size)))
    if found is not None:
        n_new = increment.n_events if first else 0 if old is None else increment.n_events - old.n_events
        head, held = _stored(model, arena, snapshot, found, keys), snapshot.payload
        taken = replace(
            snapshot,
            payload=replace(held, statistics=head, n_steps=held.n_steps + (inference.step is not None)),
            counts=replace(snapshot.counts, n_events=snapshot.n_events + n_new, n_keys=len(arena)),
        )
        batch = Batch(increment.n_events, found.rows, keys.counts.copy(), increment.payload.statistics)
    again = not first or not memoized.is_last(snapshot, increment, inference.n_epochs)
    if batches is not None and again and (found is not None or old is None):
        batches.put(where, batch)
        taken = replace(taken, payload=replace(taken.payload, n_batches=len(batches)))
    return taken, outcome


class _Change(NamedTuple):
    """The rows of an increment's words, NONE of a new one, what they become, and the sums and L of all."""

    rows: Rows
    statistics: Matrix
    sums: Vector
    log_weight: float


def _changed(
    model: AnyModel, inference: Inference, block: ShardRows, increment: Increment, keys: ByKey, old: Batch | None = None
) -> _Change | None:
    """None if an increment, or what it would give, is not finite or negative somewhere.

    The probabilities of a word's topics sum to 1, so its statistics sum to its count. Statistics above that are
    refused, and so is a batch that had other words before.
    """
    arena, snapshot = block.arena, block.snapshot
    change, kept, log_weight, n_steps = increment.payload.statistics, 1.0, 0.0, snapshot.payload.n_steps
    if not (change <= ROOM * keys.counts[:, None]).all():
        return None
    if not model.proper(change).all() or (change.sum(axis=1) > ROOM * keys.counts).any():
        return None
    head = head_of(model, snapshot.payload.statistics)
    rows = arena.firsts(keys.labels)
    if inference.step is not None:
        rho = inference.step.at(n_steps + 1)
        change = change * (rho / increment.n_events)
        if n_steps:  # the first step may have the size 1, and finds nothing that could decay
            kept, log_weight = 1 - rho, head.log_weight + float(np.log1p(-rho))
    before = old.aligned(rows) if old is not None and old.n_events else np.zeros((1, model.size))
    if before is None:
        return None
    with np.errstate(all="ignore"):  # what float64 cannot hold is not proper
        statistics = held(model, arena, rows, log_weight) + change
        sums = kept * head.sums + change.sum(axis=0)
        if old is not None:
            statistics = np.maximum(statistics - before, 0.0)
            sums = np.maximum(sums - before.sum(axis=0), 0.0)
        if (size := constant(inference)) is not None:
            t = n_steps + 1
            average = averages(model, arena, rows, t, size) + (TAIL + 1) / (t + TAIL) * change
            statistics = np.hstack([statistics, average])
    if not (proper_rows(model, statistics) and np.isfinite(sums).all()):
        return None
    return _Change(rows, statistics, sums, log_weight)


def _stored(model: AnyModel, arena: Arena, snapshot: Snapshot, change: _Change, keys: ByKey) -> Vector:
    """Puts the rows into the arena, and gives the head after it."""
    rows, before = change.rows, head_of(model, snapshot.payload.statistics).n_words
    for i in np.flatnonzero(rows == NONE).tolist():
        rows[i] = arena.add(keys.labels[i], 0)
        arena.counts[rows[i]] = arena.stamps[rows[i]] = arena.n_effective[rows[i]] = 0.0
    gone = counted(arena.counts[rows])
    arena.statistics[rows] = change.statistics
    arena.newest[rows] = change.log_weight
    arena.counts[rows] += keys.counts
    arena.dirty[rows] = True
    n_words = (before - gone + counted(arena.counts[rows])) % MODULUS
    return Head(change.sums, change.log_weight, n_words).vector()


def mended(model: AnyModel, block: ShardRows) -> Snapshot:
    """The snapshot at the end of a pass, when its rows are the sums of the batches; without the roundings of visits."""
    arena, snapshot, batches = block
    if batches is None:
        return snapshot
    n_rows, before = len(arena.labels), head_of(model, snapshot.payload.statistics).n_words
    totals, kept = batches.totals(n_rows, model.size), arena.statistics[:n_rows]
    off = np.flatnonzero((np.abs(totals - kept) > DRIFT * (1 + totals)).any(axis=1))
    gone = counted(arena.counts[off])
    arena.statistics[off] = totals[off]
    arena.counts[off] = np.fmod(arena.counts[off], MODULUS) + 1  # every change adds to the count, modulo 2^53
    arena.dirty[off] = True
    n_words = (before - gone + counted(arena.counts[off])) % MODULUS
    head = Head(batches.sums(model.size), 0.0, n_words).vector()
    return replace(snapshot, payload=replace(snapshot.payload, statistics=head))
