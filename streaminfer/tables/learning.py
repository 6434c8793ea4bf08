"""What a minibatch teaches each shard of a posterior: one class for each kind, with the same verbs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from streaminfer.models.events import Events
from streaminfer.models.lda.model import INCREMENT_BYTES, word_bytes
from streaminfer.models.model import Vector, with_posterior
from streaminfer.spec import Spec
from streaminfer.tables.demanded import lda_of
from streaminfer.variational import base, keyed, methods
from streaminfer.variational.counts import Counts
from streaminfer.variational.forgetting import rules
from streaminfer.variational.increment import ByKey, Change, Increment
from streaminfer.variational.lda import learning
from streaminfer.variational.lda.learning import ShardOf
from streaminfer.variational.lda.words import ShardRows

WhichShard = Callable[[bytes], int]
"""The shard that a label belongs to."""


class Taken(NamedTuple):
    """The good events of a minibatch, and what is known of their times."""

    events: Events
    places: Vector | None = None
    """(n,), if they matter: times in seconds since 1970, or the positions of their records."""
    stamps: Vector | None = None
    """(n,), if there are keys: the timestamps of their records, in milliseconds since 1970."""


class Lesson(NamedTuple):
    """What a minibatch teaches one shard, and the version that it was learned from."""

    base_version: int
    counts: Counts
    payload: Change


class Learning(Protocol):
    """How a kind of posterior learns."""

    def fits(self, events: Events) -> bool:
        """Whether one increment can hold what events teach; otherwise they are to be learned in two halves."""

    def learn(self, taken: Taken, shards: Sequence[ShardRows], again: bool, own: Vector | None) -> list[Lesson]:
        """A lesson for each shard, from the newest snapshots of all; there may be no snapshot yet.

        `again` if an earlier pass has met the events; `own` are the statistics that the posterior has of them then.
        """

    def nothing(self) -> Lesson:
        """The lesson of no event."""

    def dated(self, increment: Increment, taken: Taken) -> Increment:
        """An increment with what forgetting must know of its events."""


class SingleLearning:
    """See `Learning`."""

    def __init__(self, spec: Spec, _which: WhichShard) -> None:
        self._spec, self._forgetting = spec, rules.of(spec.inference.forget)
        self._model = with_posterior(spec.model)
        self._base = base.prior(self._model)

    def fits(self, events: Events) -> bool:
        return True

    def learn(self, taken: Taken, shards: Sequence[ShardRows], again: bool, own: Vector | None) -> list[Lesson]:
        spec, events, weights = self._spec, taken.events.numbers, None
        if self._forgetting is not None and len(events):
            weights = self._forgetting.weights(len(events), taken.places)
        if shards and shards[0].snapshot.version != self._base.version:
            self._base = methods.base_of(self._model, spec.inference, shards[0].snapshot)
        step = methods.learn(self._model, spec.inference, self._base, events, weights, own)
        counts = Counts(len(events), n_unconverged=step.n_unconverged, score=step.score)
        return [Lesson(self._base.version, counts, Change(step.statistics))]

    def nothing(self) -> Lesson:
        return Lesson(self._base.version, Counts(), Change(self._model.empty()))

    def dated(self, increment: Increment, taken: Taken) -> Increment:
        events = taken.events.numbers
        if self._forgetting is None or not len(events):
            return increment
        return self._forgetting.dated(self._model, increment, events, taken.places)


class KeyedLearning:
    """See `Learning`. A shard without keys in the minibatch gets a lesson of no event."""

    def __init__(self, spec: Spec, which: WhichShard) -> None:
        self._spec, self._which, self._rule = spec, which, rules.of(spec.inference.forget)

    def fits(self, events: Events) -> bool:
        return True

    def learn(self, taken: Taken, shards: Sequence[ShardRows], again: bool, own: Vector | None) -> list[Lesson]:
        spec, keys = self._spec, taken.events.keys
        if keys is None or taken.stamps is None or not keys.labels:
            return [self.nothing() for _ in range(spec.shards)]
        learned = keyed.learn(
            spec.model, taken.events.numbers, keys.labels, keys.groups, taken.stamps, taken.places, self._rule
        )
        if spec.shards == 1:
            return [_of_keys(learned)]
        which = np.array([self._which(label) for label in keys.labels])
        return [_of_keys(_some(learned, np.flatnonzero(which == shard))) for shard in range(spec.shards)]

    def nothing(self) -> Lesson:
        return _of_keys(keyed.nothing(self._spec.model))

    def dated(self, increment: Increment, taken: Taken) -> Increment:
        return increment


def _of_keys(learned: keyed.LearnedKeys) -> Lesson:
    return Lesson(0, Counts(int(learned.keys.counts.sum())), Change(learned.statistics, keys=learned.keys))


def _some(learned: keyed.LearnedKeys, rows: keyed.Groups) -> keyed.LearnedKeys:
    """Some of the keys."""
    labels, *columns = learned.keys
    chosen = ByKey([labels[row] for row in rows.tolist()], *(column[rows] for column in columns))
    return keyed.LearnedKeys(learned.statistics[rows], chosen)


class WordLearning:
    """See `Learning`. Every shard counts all documents, and has those of their words that are its own."""

    def __init__(self, spec: Spec, which: WhichShard) -> None:
        self._spec, self._model, self._which = spec, lda_of(spec), which
        self._starts = learning.starts_of(self._model)
        learning.prepare(self._model)  # now, as it takes seconds and a worker must show signs of life

    def fits(self, events: Events) -> bool:
        labels = events.bagged.labels
        return 4 + len(labels) * word_bytes(self._model.topics, 0) + sum(map(len, labels)) <= INCREMENT_BYTES

    def learn(self, taken: Taken, shards: Sequence[ShardRows], again: bool, own: Vector | None) -> list[Lesson]:
        """The score is of documents and not of words, so only the first shard's lesson has it."""
        batch = taken.events.bagged
        which = self._shards_of(batch.labels, shards)
        step = learning.learn(self._model, self._spec.inference, shards, batch, which, self._starts, again)
        made = []
        for i, block in enumerate(shards):
            statistics, keys = learning.by_word(batch, step.statistics, np.flatnonzero(which == i))
            score = step.score if i == 0 else 0.0
            counts = Counts(batch.documents.n, n_unconverged=step.n_unconverged, score=score)
            made.append(Lesson(block.snapshot.version, counts, Change(statistics, keys=keys)))
        return made

    def _shards_of(self, labels: Sequence[bytes], shards: Sequence[ShardRows]) -> ShardOf:
        """Which shard each word is of; a known word is of the shard that has it, which is found sooner than a hash."""
        found = np.zeros(len(labels), dtype=np.intp)
        if self._spec.shards > 1:
            for j, label in enumerate(labels):
                at = next((i for i, block in enumerate(shards) if label in block.arena.rows), None)
                found[j] = self._which(label) if at is None else at
        return found

    def nothing(self) -> Lesson:
        return _of_keys(keyed.nothing(self._spec.model))

    def dated(self, increment: Increment, taken: Taken) -> Increment:
        return increment
