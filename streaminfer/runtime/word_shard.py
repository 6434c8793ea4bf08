"""One shard of the words of a topic model in its master's hands: a row of K numbers for every word."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Member, Output
from streaminfer.models.lda import Lda
from streaminfer.models.model import Matrix
from streaminfer.runtime import names
from streaminfer.runtime.keyed_shard import MAX_DIRTY_BYTES, KeyedShard
from streaminfer.runtime.parts import Parts
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.word_batch_store import WordBatchStore
from streaminfer.variational import word_fold, words
from streaminfer.variational.increment import Increment
from streaminfer.variational.memoized import TooManyBatches
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.word_batches import Batches
from streaminfer.variational.words import Block
from streaminfer.wire import snapshots

FAMILY = "dirichlet"


class WordShard(KeyedShard):
    """`snapshot` has the frontier, the counts and the head of all rows; the arena has the rows."""

    _steps_back = False  # the row of a word is never removed, so newer ones cannot be taken back

    @property
    def _words(self) -> Lda:
        if self._spec.words is None:
            raise TypeError(f"{self._spec.model.kind} is no model of words")
        return self._spec.words

    @property
    def _row_size(self) -> int:
        return words.row_size(self._words, self._spec.inference)

    def _proper(self, rows: Matrix) -> bool:
        return words.proper_rows(self._words, rows)

    def _start(self) -> Snapshot:
        return words.start(self._words, self._spec.fingerprint)

    def _new_parts(self) -> Parts:
        index, known = self.partition.index, self._words.known
        return Parts(
            self._words.size,
            belongs=lambda word: names.shard_of(self._spec, word) == index and (known is None or word in known),
            words=True,
        )

    def _read_back(self) -> Snapshot | None:
        found, spec, index = super()._read_back(), self._spec, self.partition.index
        memoized = spec.inference.method == "memoized"
        self._store = WordBatchStore(spec, self._words, self._bus, index, self._schemas) if memoized else None
        self._batches: Batches | None = None
        return found

    @property
    def _block(self) -> Block:
        return Block(self._arena, self.snapshot, self._batches)

    def restored(self) -> bool:
        if not super().restored():
            return False
        if not words.complete(self._words, self._block):
            raise Fatal(
                f"{self._posterior}: the rows of words in the log are not those of the newest snapshot. Was a part "
                "of the topic removed? Give the spec a new name to start over."
            )
        return self._store is None or self._has_batches(self._store)

    def _has_batches(self, store: WordBatchStore) -> bool:
        """Reads on, and whether all batches are here."""
        try:
            self._batches = store.restored(self._arena, self.snapshot)
        except Fatal as error:
            self._check_newest(self._restore_end, error)
            raise
        return self._batches is not None

    @property
    def full(self) -> bool:
        return super().full or (self._batches is not None and self._batches.changed_bytes >= MAX_DIRTY_BYTES)

    def turn(self) -> bool:
        turned = super().turn()
        if turned:
            self.snapshot = word_fold.mended(self._words, self._block)
        return turned

    def commit(self, member: Member | None, now_ms: int) -> None:
        super().commit(member, now_ms)
        if self._batches is not None:
            self._batches.changed.clear()

    def _outputs(self, snapshot: Snapshot) -> list[Output]:
        """With the batches of memoized that have changed."""
        batches: list[Output] = []
        if self._store is not None and self._batches is not None:
            batches = self._store.outputs(self._batches, self._arena, snapshot.version)
        return [*batches, *super()._outputs(snapshot)]

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        super().close()

    def _fold(self, increment: Increment) -> None:
        spec = self._spec
        # A version before this master's time may be any: its worker computes again on one that is known.
        base_events = self._n_events.get(increment.base_version, 0)
        watch = spec.drift if self.partition.index == 0 else None  # only the first shard's increments have scores
        before = self.snapshot
        try:
            self.snapshot, outcome = word_fold.add(
                self._words, spec.inference, self._block, increment, base_events, watch
            )
        except TooManyBatches as error:
            raise Fatal(f"{self._data}: {error}") from error
        self._tell_alarm(before)
        self._metrics.outcome(outcome.value)
        self.urgent = self.urgent or not outcome.moved

    def _described(self, snapshot: Snapshot) -> tuple[NDArray[np.float64], snapshots.About]:  # noqa: ARG002
        """Without natural parameters: those of a word are in its record."""
        spec = self._spec
        return np.empty(0), snapshots.About(
            spec.name, spec.model.kind, FAMILY, spec.inference.method, spec.model.exactness
        )
