"""The rows of models of words: K numbers for each word. An increment touches few of them (see `lda.fold`).

By svb rows add up. By svi all rows decay at every step, S <- (1 - rho) S + rho s / |B| (see `blend`). To touch only the
rows of the increment, each is kept as of the step that touched it last, with L = sum of log(1 - rho) up to then.
What it is now is exp(L_now - L_then) of that. So nothing is ever rescaled, and a word that is no longer used fades by
itself. By memoized a visit takes away what its batch said before and adds what it says now (see `lda.batches`). What
roundings leave of that is mended at the end of every pass. If steps of svi are constant a row has K more numbers, its
average (see `tail_average`), as of the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import AnyModel, DomainError, Matrix, Vector
from streaminfer.variational.arena import NONE, Arena, Rows
from streaminfer.variational.held import Held
from streaminfer.variational.lda.batches import Batches
from streaminfer.variational.methods.tail_average import weights
from streaminfer.variational.settings import Inference
from streaminfer.variational.snapshot import Snapshot

BEYOND: Final = 2
"""Numbers of a head after the sums: L, and the words that were counted."""
MODULUS: Final = 1 << 53
"""Words are counted up to here, then from 0 again: float64 has every such number exactly."""


class Head(NamedTuple):
    """What a shard says of all its rows together; it is the `statistics` of its snapshots."""

    sums: Vector
    """(K,), of all rows."""
    log_weight: float
    """L of now, 0 at most."""
    n_words: int
    """The sum of all rows' counts, in every pass again, modulo 2^53. Every change of a row adds to it. So rows with
    this sum are all the rows, each as of this snapshot."""

    def vector(self) -> Vector:
        return np.append(self.sums, [self.log_weight, float(self.n_words)])


class ShardRows(NamedTuple):
    """One shard: its rows, the snapshot that they are of, and in a master's hands the batches of memoized."""

    arena: Arena
    snapshot: Snapshot
    batches: Batches | None = None


def head_size(model: AnyModel) -> int:
    return model.size + BEYOND


def head_of(model: AnyModel, statistics: Vector) -> Head:
    """The head that a snapshot's statistics are; raises DomainError if they can be none."""
    k = model.size
    if statistics.shape != (k + BEYOND,) or not np.isfinite(statistics).all():
        raise DomainError(f"the head of a shard has {k + BEYOND} finite numbers")
    log_weight, n_words = statistics[k:].tolist()
    if (statistics[:k] < 0).any() or log_weight > 0 or not 0 <= n_words < MODULUS or n_words != int(n_words):
        raise DomainError("the head of a shard has a negative sum, a weight above 1 or no whole number of words")
    return Head(statistics[:k], log_weight, int(n_words))


def row_size(model: AnyModel, inference: Inference) -> int:
    """Numbers of a row: its statistics, and their average if steps are constant."""
    return model.size * (2 if constant(inference) else 1)


def constant(inference: Inference) -> float | None:
    """The size of every step, if all are alike; else None."""
    return None if inference.step is None else inference.step.constant


def proper_rows(model: AnyModel, rows: Matrix) -> bool:
    """Whether rows as they are kept give a posterior."""
    return bool(model.proper(rows.reshape(-1, model.size)).all())


def start(model: AnyModel, fingerprint: str) -> Snapshot:
    """A shard of no word."""
    return Snapshot(fingerprint, 0, Held(np.zeros(head_size(model))))


def counted(counts: Vector) -> int:
    """The sum of whole counts, modulo 2^53 and without a rounding."""
    return int(np.fmod(counts, MODULUS).astype(np.uint64).sum(dtype=np.uint64)) % MODULUS


def complete(model: AnyModel, block: ShardRows) -> bool:
    """Whether the rows are those of the snapshot."""
    arena, snapshot = block.arena, block.snapshot
    rows = len(arena.labels)
    return (
        len(arena) == snapshot.counts.n_keys
        and counted(arena.counts[:rows]) == head_of(model, snapshot.payload.statistics).n_words
    )


def held(model: AnyModel, arena: Arena, rows: Rows, log_weight: float) -> Matrix:
    """What the statistics of rows are now, (m, K); 0 for a word without a row."""
    found = np.zeros((len(rows), model.size))
    known = rows != NONE
    at = rows[known]
    now = np.exp(np.minimum(log_weight - arena.newest[at], 0.0))[:, None]
    found[known] = arena.statistics[at, : model.size] * now
    return found


def averages(model: AnyModel, arena: Arena, rows: Rows, now: int, rho: float) -> Matrix:
    """The averages (m, K) of rows at step `now` of steps of size rho, if nothing has touched them since."""
    found = np.zeros((len(rows), model.size))
    known = rows != NONE
    at = rows[known]
    then = 1 + np.rint(arena.newest[at] / np.log1p(-rho))  # L = (t - 1) log(1 - rho)
    of_average, of_statistics = (weight[:, None] for weight in weights(np.clip(then, 1, now), now, rho))
    kept = arena.statistics[at]
    found[known] = of_average * kept[:, model.size :] + of_statistics * kept[:, : model.size]
    return found


def published(model: AnyModel, inference: Inference, block: ShardRows, labels: Sequence[bytes]) -> Matrix:
    """The statistics (m, K) of words that a snapshot publishes: the averages if steps are constant."""
    rows, rho = block.arena.firsts(labels), constant(inference)
    if rho is None:
        return held(model, block.arena, rows, head_of(model, block.snapshot.payload.statistics).log_weight)
    return averages(model, block.arena, rows, max(1, block.snapshot.payload.n_steps), rho)
