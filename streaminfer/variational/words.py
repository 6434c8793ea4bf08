"""The fold of models of words: a row of K numbers for each word, of which an increment touches few.

By svb rows add up. By svi all rows decay at every step, S <- (1 - rho) S + rho s / |B| (see `blend`); to touch only the
rows of the increment, each is kept as of the step that touched it last, with L = sum of log(1 - rho) up to then.
What it is now is exp(L_now - L_then) of that, so nothing is ever rescaled, and a word that nobody uses fades by itself.
By memoized a visit takes what its batch said before away and adds what it says now (see `word_batches`); what roundings
leave of that is mended at the end of every pass. Where steps of svi are constant a row has K more numbers, its average
(see `word_average`), as of the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import DomainError, Matrix, Model, Vector
from streaminfer.spec import Drift, Inference
from streaminfer.variational import epochs, memoized
from streaminfer.variational.arena import NONE, Arena, Rows
from streaminfer.variational.base import too_old
from streaminfer.variational.blend import TAIL
from streaminfer.variational.fold import Outcome, accounted, place
from streaminfer.variational.increment import ByKey, Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.word_average import weights
from streaminfer.variational.word_batches import Batch, Batches, Place

BEYOND: Final = 2
"""Numbers of a head after the sums: L, and the words that were counted."""
ROOM: Final = 1 + 1e-6
"""What roundings may add to the sum of probabilities, times."""
DRIFT: Final = 1e-13
"""Roundings of visits below this are left in a row, so that the end of a pass does not publish all of them again."""
MODULUS: Final = 1 << 53
"""Words are counted up to here, then from 0 again: float64 has every such number exactly."""


class Head(NamedTuple):
    """What a shard says of all its rows together; it is the `statistics` of its snapshots."""

    sums: Vector
    """(K,), of all rows."""
    log_weight: float
    """L of now, 0 at most."""
    n_words: int
    """The sum of all rows' counts, in every pass again, modulo 2^53. Every change of a row adds to it, so who has rows
    with this sum has all of them, each as of this snapshot."""

    def vector(self) -> Vector:
        return np.append(self.sums, [self.log_weight, float(self.n_words)])


class Block(NamedTuple):
    """One shard: its rows, the snapshot that they are of, and in a master's hands the batches of memoized."""

    arena: Arena
    snapshot: Snapshot
    batches: Batches | None = None


def head_size(model: Model) -> int:
    return model.size + BEYOND


def head_of(model: Model, statistics: Vector) -> Head:
    """The head that a snapshot's statistics are; raises DomainError where they can be none."""
    k = model.size
    if statistics.shape != (k + BEYOND,) or not np.isfinite(statistics).all():
        raise DomainError(f"the head of a shard has {k + BEYOND} finite numbers")
    log_weight, n_words = statistics[k:].tolist()
    if (statistics[:k] < 0).any() or log_weight > 0 or not 0 <= n_words < MODULUS or n_words != int(n_words):
        raise DomainError("the head of a shard has a negative sum, a weight above 1 or no whole number of words")
    return Head(statistics[:k], log_weight, int(n_words))


def row_size(model: Model, inference: Inference) -> int:
    """Numbers of a row: its statistics, and their average where steps are constant."""
    return model.size * (2 if _constant(inference) else 1)


def _constant(inference: Inference) -> float | None:
    """The size of every step, where all are alike."""
    return None if inference.step is None else inference.step.constant


def proper_rows(model: Model, rows: Matrix) -> bool:
    """Whether rows as they are kept give a posterior."""
    return bool(model.proper(rows.reshape(-1, model.size)).all())


def start(model: Model, fingerprint: str) -> Snapshot:
    """A shard of no word."""
    return Snapshot(fingerprint, 0, np.zeros(head_size(model)), {})


def counted(counts: Vector) -> int:
    """The sum of whole counts, modulo 2^53 and without a rounding."""
    return int(np.fmod(counts, MODULUS).astype(np.uint64).sum(dtype=np.uint64)) % MODULUS


def complete(model: Model, block: Block) -> bool:
    """Whether the rows are those of the snapshot."""
    arena, snapshot = block.arena, block.snapshot
    rows = len(arena.labels)
    return len(arena) == snapshot.n_keys and counted(arena.counts[:rows]) == head_of(model, snapshot.statistics).n_words


def add(
    model: Model,
    inference: Inference,
    block: Block,
    increment: Increment,
    base_events: int | None = None,
    watch: Drift | None = None,
) -> tuple[Snapshot, Outcome]:
    """The fold of `fold.add`, `blend.step` and `memoized.visited` for the words of an increment.

    Arena and batches are changed where it is folded. An increment counts all documents of its minibatch, whichever of
    its words are of this shard.
    """
    snapshot = block.snapshot
    outcome = place(snapshot, increment, inference.n_epochs)
    if outcome is Outcome.FOLDED and block.batches is not None:
        begins = block.batches.begins(increment.partition)
        outcome = outcome if memoized.fits(begins, snapshot, increment) else Outcome.AHEAD
    if outcome is Outcome.FOLDED and increment.n_events and base_events is not None:
        outcome = Outcome.STALE_BASE if too_old(snapshot.n_events, base_events) else outcome
    if outcome is not Outcome.FOLDED or increment.keys is None:
        return replace(snapshot, n_dropped=snapshot.n_dropped + 1), outcome
    taken, outcome = _visited(model, inference, block, increment, increment.keys)
    return accounted(taken, snapshot, increment, outcome, watch), outcome


def _visited(
    model: Model, inference: Inference, block: Block, increment: Increment, keys: ByKey
) -> tuple[Snapshot, Outcome]:
    """A snapshot with the increment where that is proper, else as it was.

    As in `memoized.visited`, a batch of which documents are gone keeps the statistics of its last visit.
    """
    arena, snapshot, batches = block
    first = epochs.counts(snapshot, increment)
    where, old = Place(increment.partition, increment.begin), None
    if batches is not None and not first:
        old = batches.get(where)
        if increment.n_lost or (old is not None and increment.n_events < old.n_events):
            return snapshot, Outcome.FOLDED
    found = _changed(model, inference, block, increment, keys, old) if increment.n_events else None
    outcome = Outcome.REJECTED if increment.n_events and found is None else Outcome.FOLDED
    taken, batch = snapshot, Batch(0, np.empty(0, dtype=np.intp), np.empty(0), np.empty((0, model.size)))
    if found is not None:
        n_new = increment.n_events if first else 0 if old is None else increment.n_events - old.n_events
        taken = replace(
            snapshot,
            statistics=_stored(model, arena, snapshot, found, keys),
            n_steps=snapshot.n_steps + (inference.method == "svi"),
            n_events=snapshot.n_events + n_new,
            n_keys=len(arena),
        )
        batch = Batch(increment.n_events, found.rows, keys.counts.copy(), increment.statistics)
    again = not first or not memoized.is_last(snapshot, increment, inference.n_epochs)
    if batches is not None and again and (found is not None or old is None):
        batches.put(where, batch)
        taken = replace(taken, n_batches=len(batches))
    return taken, outcome


class _Change(NamedTuple):
    """The rows of an increment's words, NONE of a new one, what they become, and the sums and L of all."""

    rows: Rows
    statistics: Matrix
    sums: Vector
    log_weight: float


def _changed(
    model: Model, inference: Inference, block: Block, increment: Increment, keys: ByKey, old: Batch | None = None
) -> _Change | None:
    """None where an increment, or what it would give, is not finite or negative somewhere.

    The probabilities of a word's topics sum to 1, so its statistics to its count: one with more is no increment. Nor is
    one of a batch that had other words before.
    """
    arena, snapshot = block.arena, block.snapshot
    if not (increment.statistics <= ROOM * keys.counts[:, None]).all():
        return None
    if not model.proper(increment.statistics).all() or (increment.statistics.sum(axis=1) > ROOM * keys.counts).any():
        return None
    head = head_of(model, snapshot.statistics)
    rows = arena.firsts(keys.labels)
    change, kept, log_weight = increment.statistics, 1.0, 0.0
    if inference.method == "svi" and inference.step is not None:
        rho = inference.step.at(snapshot.n_steps + 1)
        change = change * (rho / increment.n_events)
        if snapshot.n_steps:  # the first step may have the size 1, and finds nothing that could decay
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
        if (size := _constant(inference)) is not None:
            t = snapshot.n_steps + 1
            average = averages(model, arena, rows, t, size) + (TAIL + 1) / (t + TAIL) * change
            statistics = np.hstack([statistics, average])
    if not (proper_rows(model, statistics) and np.isfinite(sums).all()):
        return None
    return _Change(rows, statistics, sums, log_weight)


def _stored(model: Model, arena: Arena, snapshot: Snapshot, change: _Change, keys: ByKey) -> Vector:
    """Puts the rows into the arena, and gives the head after it."""
    rows, before = change.rows, head_of(model, snapshot.statistics).n_words
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


def held(model: Model, arena: Arena, rows: Rows, log_weight: float) -> Matrix:
    """What the statistics of rows are now, (m, K); 0 of a word that is not there."""
    found = np.zeros((len(rows), model.size))
    known = rows != NONE
    at = rows[known]
    now = np.exp(np.minimum(log_weight - arena.newest[at], 0.0))[:, None]
    found[known] = arena.statistics[at, : model.size] * now
    return found


def averages(model: Model, arena: Arena, rows: Rows, now: int, rho: float) -> Matrix:
    """What the averages of rows are at step `now` of steps of size rho, (m, K), where nothing touches them any more."""
    found = np.zeros((len(rows), model.size))
    known = rows != NONE
    at = rows[known]
    then = 1 + np.rint(arena.newest[at] / np.log1p(-rho))  # L = (t - 1) log(1 - rho)
    of_average, of_statistics = (weight[:, None] for weight in weights(np.clip(then, 1, now), now, rho))
    kept = arena.statistics[at]
    found[known] = of_average * kept[:, model.size :] + of_statistics * kept[:, : model.size]
    return found


def published(model: Model, inference: Inference, block: Block, labels: Sequence[bytes]) -> Matrix:
    """The statistics (m, K) of words that a snapshot publishes: of constant steps the averages."""
    rows, rho = block.arena.firsts(labels), _constant(inference)
    if rho is None:
        return held(model, block.arena, rows, head_of(model, block.snapshot.statistics).log_weight)
    return averages(model, block.arena, rows, max(1, block.snapshot.n_steps), rho)


def mended(model: Model, block: Block) -> Snapshot:
    """The snapshot at the end of a pass, when its rows are the sums of the batches; without the roundings of visits."""
    arena, snapshot, batches = block
    if batches is None:
        return snapshot
    n_rows, before = len(arena.labels), head_of(model, snapshot.statistics).n_words
    totals, kept = batches.totals(n_rows, model.size), arena.statistics[:n_rows]
    off = np.flatnonzero((np.abs(totals - kept) > DRIFT * (1 + totals)).any(axis=1))
    gone = counted(arena.counts[off])
    arena.statistics[off] = totals[off]
    arena.counts[off] = np.fmod(arena.counts[off], MODULUS) + 1  # every change adds to the count, modulo 2^53
    arena.dirty[off] = True
    n_words = (before - gone + counted(arena.counts[off])) % MODULUS
    return replace(snapshot, statistics=Head(batches.sums(model.size), 0.0, n_words).vector())
