"""Topics: a row of K numbers for every word, and by memoized the batches of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from streaminfer.models.lda.model import Lda
from streaminfer.models.model import DomainError
from streaminfer.spec import Spec
from streaminfer.tables import passes
from streaminfer.tables.demanded import lda_of
from streaminfer.tables.kept import MOST_BATCHES, passed
from streaminfer.tables.sizes import MAX_DIRTY_BYTES, most_dirty
from streaminfer.tables.table import Columns, Described, Kept, Place
from streaminfer.variational.arena import NONE, Arena
from streaminfer.variational.increment import ByKey, Increment, Layout
from streaminfer.variational.lda import fold, words
from streaminfer.variational.lda.batches import Batch, Batches, BatchPlace
from streaminfer.variational.lda.words import ShardRows
from streaminfer.variational.methods import method_of
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot

FAMILY: Final = "dirichlet"
UNREADABLE: Final = 1 << 40
"""What a row is taken to have counted that cannot be read: more than any other has."""
SAME: Final = 1e-9


class Words:
    """See `table.Table`. `snapshot.statistics` are the head of all rows (see `variational.lda.words`)."""

    def __init__(self, spec: Spec, shard: int = 0) -> None:
        self._spec, self._model = spec, lda_of(spec)
        self._watch = spec.drift if shard == 0 else None  # only the first shard's increments have scores
        self.row_size = words.row_size(self._model, spec.inference)
        self.layout = Layout(self._model.size, labels="words", known=self._model.known)
        self._most_dirty = most_dirty(self.row_size)
        self.rows = Arena(self.row_size)
        self.keeping = KeptWordBatches(self) if method_of(spec.inference).keeps_batches else None
        self.snapshot = self.start()

    @property
    def model(self) -> Lda:
        return self._model

    @property
    def block(self) -> ShardRows:
        return ShardRows(self.rows, self.snapshot, None if self.keeping is None else self.keeping.batches)

    def start(self) -> Snapshot:
        return words.start(self._model, self._spec.fingerprint)

    def clear(self) -> None:
        self.rows = Arena(self.row_size)

    def missing(self, snapshot: Snapshot) -> str | None:
        if words.complete(self._model, ShardRows(self.rows, snapshot)):
            return None
        return "the rows of words in the log are not those of the newest snapshot"

    def may_hide(self, label: bytes) -> bool:
        return False

    def take_back(self, label: bytes, clock: int, count: float | None) -> bool:
        """As of the snapshot, and of a word that it does not have without statistics.

        Every change of a row adds to its count, this one too: so no reader takes a row that was taken back for it.
        """
        arena = self.rows
        row = arena.rows.get(label, NONE)
        if row == NONE and count is None:
            return False
        if row == NONE:
            row = arena.add(label, 0)
            arena.statistics[row] = arena.counts[row] = arena.stamps[row] = arena.n_effective[row] = 0.0
            arena.newest[row] = words.head_of(self._model, self.snapshot.payload.statistics).log_weight
        arena.counts[row] = max(arena.counts[row], UNREADABLE if count is None else count) + 1
        arena.dirty[row] = True
        return True

    def taken_back(self, snapshot: Snapshot) -> Snapshot:
        head, n_rows = words.head_of(self._model, snapshot.payload.statistics), len(self.rows.labels)
        n_words = words.counted(self.rows.counts[:n_rows])
        held = replace(snapshot.payload, statistics=head._replace(n_words=n_words).vector())
        return replace(snapshot, payload=held, counts=replace(snapshot.counts, n_keys=len(self.rows)))

    def fold(self, increment: Increment, fresh_from: int, base_events: int) -> Outcome:
        self.snapshot, outcome = fold.add(
            self._model, self._spec.inference, self.block, increment, base_events, self._watch
        )
        return outcome

    def fold_all(self, increments: Sequence[Increment]) -> None:
        """One after the other: a snapshot may be due between them, as it would be too large."""

    def settle(self, before: Snapshot, ends: Callable[[], Mapping[int, int]]) -> None:
        """Nothing."""

    @property
    def full(self) -> bool:
        large = self.keeping is not None and self.keeping.batches.changed_bytes >= MAX_DIRTY_BYTES
        return large or self.rows.n_dirty >= self._most_dirty

    @property
    def restless(self) -> bool:
        return passes.unfixed(self._spec.inference, self.snapshot)

    def rest(self, ends: Mapping[int, int]) -> str:
        self.snapshot, said = passes.fixed(self.snapshot, ends)
        return said

    def turn(self) -> bool:
        before, self.snapshot = self.snapshot, passes.turned(self._spec.inference, self.snapshot)
        if self.snapshot is before:
            return False
        self.snapshot = fold.mended(self._model, self.block)
        return True

    def published(self) -> None:
        self.rows.published()

    @property
    def n_effective(self) -> float:
        return self.snapshot.n_effective

    def described(self, snapshot: Snapshot) -> Described:
        """Without natural parameters."""
        return Described(self._spec.model.kind, FAMILY, self._spec.model.exactness, np.empty(0))


class KeptWordBatches:
    """The batches of memoized: what each said of its words at its last visit. See `table.Keeping`."""

    what, most, least, columns = "batches", MOST_BATCHES, 0, True

    def __init__(self, table: Words) -> None:
        self._table = table
        self.batches = Batches()

    def clear(self) -> None:
        self.batches = Batches()

    def put(self, kept: Kept) -> int:
        if not isinstance(kept.item, Columns):
            raise TypeError("a batch of words has columns")
        rows = self._table.rows.firsts(kept.item.keys.labels)
        if (rows == NONE).any() or not self._table.model.proper(kept.item.statistics).all():
            raise DomainError(f"the batch from {kept.place.at} on has words that no row is of, or no statistics")
        batch = Batch(kept.n_events, rows, kept.item.keys.counts.copy(), kept.item.statistics)
        self.batches.put(BatchPlace(*kept.place), batch)
        return batch.n_bytes

    def whole(self, snapshot: Snapshot) -> Snapshot:
        model, batches = self._table.model, self.batches
        if len(batches) != snapshot.payload.n_batches:
            raise DomainError(f"there are {len(batches)} and the snapshot says {snapshot.payload.n_batches}")
        for place, _ in batches:
            start, last = passed(snapshot, place.partition)
            if start is None or not start <= place.begin < last:
                raise DomainError(
                    f"one of partition {place.partition} begins at {place.begin}, not in [{start}, {last})"
                )
        n_events = sum(batch.n_events for _, batch in batches)
        if n_events > snapshot.n_events:
            raise DomainError(f"they have {n_events} events and the snapshot says {snapshot.n_events}")
        sums, said = batches.sums(model.size), words.head_of(model, snapshot.payload.statistics).sums
        if n_events == snapshot.n_events and (np.abs(sums - said) > SAME * (1 + said.sum())).any():
            raise DomainError(f"they sum to {sums.sum():,.15g} words and the snapshot says {said.sum():,.15g}")
        batches.changed.clear()
        return snapshot

    def changes(self, old: Snapshot, new: Snapshot) -> Iterator[Kept]:
        for place in sorted(self.batches.changed):
            found = self.find(new, Place(*place))
            if found is None:
                raise KeyError(place)
            yield found

    def find(self, snapshot: Snapshot, place: Place) -> Kept | None:
        batch, arena = self.batches.get(BatchPlace(*place)), self._table.rows
        if batch is None:
            return None
        nothing, labels = np.zeros(len(batch.rows)), [arena.labels[row] for row in batch.rows.tolist()]
        keys = ByKey(labels, batch.counts, nothing, nothing, nothing, nothing)
        return Kept(place, batch.n_events, Columns(keys, batch.statistics))

    def summary(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def published(self) -> None:
        self.batches.changed.clear()
