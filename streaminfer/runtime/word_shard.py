"""One shard of the words of a topic model in its master's hands: a row of K numbers for every word."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.lda import Lda
from streaminfer.runtime import names
from streaminfer.runtime.keyed_shard import KeyedShard
from streaminfer.runtime.parts import Parts
from streaminfer.runtime.service import Fatal
from streaminfer.variational import words
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.words import Block
from streaminfer.wire import snapshots

FAMILY = "dirichlet"


class WordShard(KeyedShard):
    """`snapshot` has the frontier, the counts and the head of all rows; the arena has the rows."""

    @property
    def _words(self) -> Lda:
        if self._spec.words is None:
            raise TypeError(f"{self._spec.model.kind} is no model of words")
        return self._spec.words

    def _start(self) -> Snapshot:
        return words.start(self._words, self._spec.fingerprint)

    def _new_parts(self) -> Parts:
        index, known = self.partition.index, self._words.known
        return Parts(
            self._words.size,
            belongs=lambda word: names.shard_of(self._spec, word) == index and (known is None or word in known),
            words=True,
        )

    def restored(self) -> bool:
        done = super().restored()
        if done and not words.complete(self._words, Block(self._arena, self.snapshot)):
            raise Fatal(
                f"{self._posterior}: the rows of words in the log are not those of the newest snapshot. Was a part "
                "of the topic removed? Give the spec a new name to start over."
            )
        return done

    def _fold(self, increment: Increment) -> None:
        spec, block = self._spec, Block(self._arena, self.snapshot)
        # A version before this master's time may be any: its worker computes again on one that is known.
        base_events = self._n_events.get(increment.base_version, 0)
        watch = spec.drift if self.partition.index == 0 else None  # only the first shard's increments have scores
        before = self.snapshot
        self.snapshot, outcome = words.add(self._words, spec.inference, block, increment, base_events, watch)
        self._tell_alarm(before)
        self._metrics.outcome(outcome.value)
        self.urgent = self.urgent or not outcome.moved

    def _described(self, snapshot: Snapshot) -> tuple[NDArray[np.float64], snapshots.About]:  # noqa: ARG002
        """Without natural parameters: those of a word are in its record."""
        spec = self._spec
        return np.empty(0), snapshots.About(
            spec.name, spec.model.kind, FAMILY, spec.inference.method, spec.model.exactness
        )
