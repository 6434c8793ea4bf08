"""A posterior for each key: a row for every key, and clock if each partition has its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from streaminfer.spec import Spec
from streaminfer.tables import passes
from streaminfer.tables.demanded import key_of
from streaminfer.tables.pooled_prior import model_of, pooled
from streaminfer.tables.sizes import most_dirty
from streaminfer.tables.table import Described
from streaminfer.variational import fold, keyed
from streaminfer.variational.arena import NONE, Arena
from streaminfer.variational.forgetting import rules
from streaminfer.variational.increment import Increment, Layout
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot

GROWTH: Final = 1.25
"""How many times the events of the last fit of a pooled prior there must be for the next, until the data rests."""


class Keyed:
    """See `table.Table`. A pooled prior is fitted to the keys, and travels in manifests: all readers have the same."""

    keeping = None

    def __init__(self, spec: Spec) -> None:
        self._spec, self._resting = spec, False
        self._rules = keyed.Rules(rules.of(spec.inference.forget), key_of(spec).expire_after)
        self.row_size = spec.model.size
        self.layout = Layout(spec.model.size, timed=spec.inference.by_time, labels="keys")
        self._most_dirty = most_dirty(self.row_size)
        self.rows = Arena(self.row_size)
        self.snapshot = self.start()

    def start(self) -> Snapshot:
        return fold.start(self._spec.model, self._spec.fingerprint)

    def clear(self) -> None:
        self.rows = Arena(self.row_size)

    def missing(self, snapshot: Snapshot) -> str | None:
        n_keys = snapshot.counts.n_keys
        if len(self.rows) == n_keys:
            return None
        many = f"{n_keys} key{'' if n_keys == 1 else 's'}"
        return f"the newest snapshot has {many} and the log {len(self.rows)}"

    def may_hide(self, label: bytes) -> bool:
        return label in self.rows.rows

    def take_back(self, label: bytes, clock: int, count: float | None) -> bool:
        (row,) = self.rows.find([label], clock).tolist()
        self.rows.gone.add((label, clock))
        if row != NONE:
            self.rows.dirty[row] = True
        return True

    def taken_back(self, snapshot: Snapshot) -> Snapshot:
        return replace(snapshot)

    def fold(self, increment: Increment, fresh_from: int, base_events: int) -> Outcome:
        self.snapshot, outcome = keyed.add(self._spec.model, self.rows, self.snapshot, increment, self._rules)
        return outcome

    def fold_all(self, increments: Sequence[Increment]) -> None:
        """One after the other: a snapshot may be due between them, as it would be too large."""

    def settle(self, before: Snapshot, ends: Callable[[], Mapping[int, int]]) -> None:
        """Drops some of the idle keys, and fits a pooled prior if that is due."""
        n_expired = self.snapshot.counts.n_expired
        if self._rules.expire_after is not None:
            self.snapshot = keyed.expire(self.rows, self.snapshot, self._rules, self._most_dirty, ends())
        if self._spec.pooled:
            self._pool(before, all_gone=self.snapshot.counts.n_expired - n_expired < self._most_dirty)

    def _pool(self, before: Snapshot, all_gone: bool) -> None:
        """Fits the prior if the data rests, or there are a quarter more events than at the last time.

        `n_pooled` is `n_events` only if the prior is that of the keys as they are: not if idle ones are still to go.
        """
        now, final = self.snapshot, self._resting and all_gone
        counts, fewer = now.counts, max(0, now.n_events - 1)
        self._resting = False
        if final or counts.n_events >= GROWTH * counts.n_pooled:
            held = replace(now.payload, prior=pooled(self._spec, self.rows))
            counts = replace(counts, n_pooled=counts.n_events if all_gone else fewer)
            self.snapshot = replace(now, payload=held, counts=counts)
        elif counts.n_expired != before.counts.n_expired:
            self.snapshot = replace(now, counts=replace(counts, n_pooled=min(counts.n_pooled, fewer)))

    @property
    def full(self) -> bool:
        return self.rows.n_dirty >= self._most_dirty

    @property
    def restless(self) -> bool:
        counts = self.snapshot.counts
        unpooled = self._spec.pooled and counts.n_pooled != counts.n_events
        return unpooled or passes.unfixed(self._spec.inference, self.snapshot)

    def rest(self, ends: Mapping[int, int]) -> str:
        """The next snapshot has the prior of all events, whatever was fitted before and when."""
        self._resting = True
        return f"at rest at {dict(ends)}: the prior is fitted to all keys as they are"

    def turn(self) -> bool:
        return False

    def published(self) -> None:
        self.rows.published()

    @property
    def n_effective(self) -> float:
        """Those of each key as of its own newest event."""
        return self.snapshot.n_effective if self._rules.forgetting is None else self.rows.total_effective

    def described(self, snapshot: Snapshot) -> Described:
        """What all keys start from."""
        model = model_of(self._spec, snapshot)
        posterior = model.posterior(snapshot.payload.statistics)
        return Described(self._spec.kind, posterior.family, model.exactness, posterior.natural)
