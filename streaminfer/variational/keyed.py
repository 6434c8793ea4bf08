"""Keyed posteriors: one for each key, learned and folded many at a time.

A key's posterior is prior + the statistics of its events. The frontier is that of all keys together, so an increment is
folded or dropped as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import AnyModel, Matrix, Vector, conjugate
from streaminfer.variational.admission import place, within
from streaminfer.variational.arena import NONE, Arena, Rows
from streaminfer.variational.forgetting.decay import FLOOR, ByEvents, ByTime, Forgetting, halved
from streaminfer.variational.frontier import Frontier
from streaminfer.variational.increment import ByKey, Increment
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot, dropped

Groups = NDArray[np.intp]


class LearnedKeys(NamedTuple):
    """What a minibatch says of its keys: statistics (k, size) and the rest."""

    statistics: Matrix
    keys: ByKey


def nothing(model: AnyModel) -> LearnedKeys:
    """What no event teaches."""
    return LearnedKeys(np.empty((0, model.size)), ByKey((), *(np.empty(0) for _ in range(5))))


def learn(
    model: AnyModel,
    events: Matrix,
    labels: Sequence[bytes],
    groups: Groups,
    stamps: Vector,
    times: Vector | None,
    forgetting: Forgetting | None,
) -> LearnedKeys:
    """The statistics of each key's events (n, fields); `groups` (n,) says which of the k labels an event has."""
    k = len(labels)
    counts = np.bincount(groups, minlength=k).astype(np.float64)
    newest = np.zeros(k) if times is None else _largest(times, groups, k)
    weights = _weights(forgetting, groups, counts, times, newest)
    n_effective = np.bincount(groups, weights, k).astype(np.float64) if times is not None else np.zeros(k)
    statistics = conjugate(model).statistics_by(events, groups, k, weights)
    latest, oldest = _largest(stamps, groups, k), -_largest(-stamps, groups, k)
    return LearnedKeys(statistics, ByKey(labels, counts, latest, oldest, n_effective, newest))


def _largest(values: Vector, groups: Groups, k: int) -> Vector:
    found = np.full(k, -np.inf)
    np.maximum.at(found, groups, values)
    return found


def _weights(
    forgetting: Forgetting | None, groups: Groups, counts: Vector, times: Vector | None, newest: Vector
) -> Vector | None:
    """As `Forgetting.weights` for each key by itself."""
    if isinstance(forgetting, ByEvents):
        order = np.argsort(groups, kind="stable")
        ends = np.cumsum(counts)
        later = np.empty(len(groups))
        later[order] = ends[groups[order]] - 1 - np.arange(len(groups))
        return halved(later / forgetting.half_life)
    if isinstance(forgetting, ByTime) and times is not None:
        return halved((newest[groups] - times) / forgetting.half_life)
    return None


@dataclass(frozen=True, slots=True)
class Rules:
    """What a spec says of keys: how their events are forgotten, and after how many seconds an idle key is dropped."""

    forgetting: Forgetting | None = None
    expire_after: float | None = None

    def clock(self, partition: int) -> int:
        """Which clock the events of a data partition count by: by events each has its own (see `forgetting`)."""
        return partition if isinstance(self.forgetting, ByEvents) else 0

    @property
    def limit(self) -> float:
        """Milliseconds without a record after which a key is dropped."""
        return math.inf if self.expire_after is None else 1000 * self.expire_after


def add(
    model: AnyModel, arena: Arena, snapshot: Snapshot, increment: Increment, rules: Rules
) -> tuple[Snapshot, Outcome]:
    """The fold of `fold.add` for each key of an increment; the arena is changed if the frontier moves.

    A key whose statistics give no posterior keeps what it had, and its events count as rejected.
    """
    outcome, keys = place(snapshot, increment), increment.payload.keys
    if outcome is not Outcome.FOLDED or keys is None:
        return dropped(snapshot), outcome
    n_expired = _expire_returning(arena, keys, rules)
    n_rejected = _merge(model, arena, increment, keys, rules) if keys.labels else 0
    if n_rejected and n_rejected == increment.n_events:
        outcome = Outcome.REJECTED
    old, new = snapshot.counts, increment.counts
    counts = replace(
        old,
        n_events=old.n_events + new.n_events - n_rejected,
        n_lost=old.n_lost + new.n_lost,
        n_dead_lettered=old.n_dead_lettered + new.n_dead_lettered,
        n_rejected=old.n_rejected + n_rejected,
        n_keys=len(arena),
        n_expired=old.n_expired + n_expired,
    )
    frontier = snapshot.frontier.after(increment.provenance)
    if rules.expire_after is not None:
        frontier = _stamped(frontier, increment.provenance.partition, keys)
    return replace(snapshot, frontier=frontier, counts=counts), outcome


def _stamped(frontier: Frontier, partition: int, keys: ByKey) -> Frontier:
    """A frontier with the newest timestamp of an increment's keys."""
    newest = int(np.max(keys.stamps, initial=0))
    return replace(frontier, stamps={**frontier.stamps, partition: max(newest, frontier.stamps.get(partition, 0))})


def expire(arena: Arena, snapshot: Snapshot, rules: Rules, most: int, ends: Mapping[int, int]) -> Snapshot:
    """Drops at most N idle keys; `ends` are those of the data partitions.

    The partition that is furthest behind says what time it is. As long as timestamps of a partition do not go back, any
    later event of a dropped key is too late for it. So it does not matter when this happens. A partition without a
    folded event may still have anything.
    """
    positions, stamps = snapshot.frontier.positions, snapshot.frontier.stamps
    unknown = any(ends.get(p, 0) > at for p, at in positions.items() if p not in stamps)
    if rules.expire_after is None or unknown:
        return snapshot
    idle = arena.idle(min((at for at in stamps.values() if at > 0), default=0) - rules.limit, most)
    if not idle:
        return snapshot
    for label in idle:
        arena.drop(label)
    n_expired = snapshot.counts.n_expired + len(idle)
    return replace(snapshot, counts=replace(snapshot.counts, n_keys=len(arena), n_expired=n_expired))


def _expire_returning(arena: Arena, keys: ByKey, rules: Rules) -> int:
    """Drops those keys of an increment whose records are all too late for what is held.

    Only the key's own records count: those of other keys may come from partitions that are far ahead.
    """
    if rules.expire_after is None or not keys.labels:
        return 0
    rows = arena.firsts(keys.labels)
    known = np.flatnonzero(rows != NONE)
    idle = known[keys.oldest[known] - arena.stamps[rows[known]] > rules.limit]
    for i in idle.tolist():
        arena.drop(keys.labels[i])
    return len(idle)


class _Weighted(NamedTuple):
    """Rows of keys, or what an increment brings to them."""

    statistics: Matrix
    n_effective: Vector
    newest: Vector


def _merge(model: AnyModel, arena: Arena, increment: Increment, keys: ByKey, rules: Rules) -> int:
    """Folds all keys; returns how many events were rejected.

    Rows of several clocks are proper together if each is: their sum has the events of all.
    """
    clock = rules.clock(increment.provenance.partition)
    rows = arena.find(keys.labels, clock)
    old, change = _aged(model, arena, rows, increment, keys, rules.forgetting)
    with np.errstate(all="ignore"):  # what float64 cannot hold is not proper
        merged = model.merge(old.statistics, change.statistics)
    given = increment.payload.statistics
    good = model.proper(given) & model.proper(merged) & within(model, given, keys.counts)
    for i in np.flatnonzero(good & (rows == NONE)).tolist():
        rows[i] = arena.add(keys.labels[i], clock)
        arena.counts[rows[i]] = 0.0
    at = rows[good]
    arena.statistics[at] = merged[good]
    arena.counts[at] += keys.counts[good]
    arena.n_effective[at] = (old.n_effective + change.n_effective)[good]
    arena.newest[at] = change.newest[good]
    firsts = arena.firsts([label for label, fits in zip(keys.labels, good.tolist(), strict=True) if fits])
    arena.stamps[firsts] = np.maximum(arena.stamps[firsts], keys.stamps[good])
    arena.dirty[at] = True
    return int(keys.counts[~good].sum())


def _aged(
    model: AnyModel, arena: Arena, rows: Rows, increment: Increment, keys: ByKey, forgetting: Forgetting | None
) -> tuple[_Weighted, _Weighted]:
    """What is held of the keys and what comes to them, both as of the later of the two; see `forgetting`."""
    old = _held(model, arena, rows)
    change = _Weighted(increment.payload.statistics, keys.n_effective, keys.newest)
    if isinstance(forgetting, ByEvents):
        rate = -math.log(2) / forgetting.half_life
        fresh = np.expm1(keys.counts * rate) / math.expm1(rate)
        return _decayed(model, old, keys.counts / forgetting.half_life), change._replace(n_effective=fresh)
    if isinstance(forgetting, ByTime):
        newest = np.maximum(old.newest, change.newest)
        old, change = (
            _decayed(model, each, np.where(each.n_effective > 0, newest - each.newest, 0.0) / forgetting.half_life)
            for each in (old, change)
        )
        return old, change._replace(newest=newest)
    return old, change


def _held(model: AnyModel, arena: Arena, rows: Rows) -> _Weighted:
    known = rows != NONE
    statistics = np.tile(model.empty(), (len(rows), 1))
    n_effective, newest = np.zeros(len(rows)), np.full(len(rows), -np.inf)
    statistics[known] = arena.statistics[rows[known]]
    n_effective[known], newest[known] = arena.n_effective[rows[known]], arena.newest[rows[known]]
    return _Weighted(statistics, n_effective, newest)


def _decayed(model: AnyModel, held: _Weighted, halvings: Vector) -> _Weighted:
    """As `forgetting.decayed`, row by row."""
    weights = np.exp2(-halvings)
    n_effective = weights * held.n_effective
    gone = n_effective < FLOOR
    statistics = model.scale(held.statistics, np.where(gone, 0.0, weights))
    statistics[gone] = model.empty()
    return held._replace(statistics=statistics, n_effective=np.where(gone, 0.0, n_effective))


def some(model: AnyModel, arena: Arena, most: int) -> Matrix:
    """The statistics (k, size) of at most N keys: those whose hashes are smallest, in the order of these.

    So they are the same whenever, and in whatever order, the keys have come.
    """
    labels = list(arena.rows)
    hashes = drawn(labels)
    order = np.argsort(hashes, kind="stable")
    last = hashes[order[min(most, len(order)) - 1]]
    first = sorted((int(hashes[i]), labels[i]) for i in order[hashes[order] <= last].tolist())[:most]
    rows = arena.firsts([label for _, label in first])
    total = arena.statistics[rows]
    after = arena.after[rows].astype(np.intp)
    while (left := np.flatnonzero(after != NONE)).size:
        total[left] = model.merge(total[left], arena.statistics[after[left]])
        after[left] = arena.after[after[left]]
    return total


def drawn(labels: Sequence[bytes]) -> NDArray[np.uint64]:
    """A hash of each label that says nothing of what it means: its checksum through splitmix64."""
    x = np.fromiter(map(crc32, labels), dtype=np.uint64, count=len(labels)) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
