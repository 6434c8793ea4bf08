"""Our pure code on documents in memory: the local step, and the whole loop of svi or svb.

The loop is the one of a worker and a master without a bus: the rows of a minibatch's words, their local step, the fold.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np

from benchmarks.contenders.topic_task import Learned, TopicTask, received, tell
from benchmarks.corpus import Corpus, given, labels, score
from benchmarks.topic_spec import spec_of
from streaminfer.models.lda.bagged import Bagged
from streaminfer.models.lda.documents import Documents
from streaminfer.models.lda.model import Lda
from streaminfer.models.model import Matrix
from streaminfer.spec import Spec
from streaminfer.variational.arena import Arena
from streaminfer.variational.counts import Counts
from streaminfer.variational.frontier import Frontier
from streaminfer.variational.increment import Change, Increment, Provenance
from streaminfer.variational.lda import fold, learning, words
from streaminfer.variational.lda.local import local
from streaminfer.variational.lda.topics import Topics
from streaminfer.variational.lda.words import ShardRows, head_of


class Loop:
    """One pass over minibatches."""

    def __init__(self, spec: Spec, scored: bool) -> None:
        self._spec, self._model, self._scored = spec, _lda(spec), scored
        first = replace(words.start(self._model, spec.fingerprint), frontier=Frontier({0: 0}))
        self.block = ShardRows(Arena(self._model.size), first)
        self._starts = learning.starts_of(self._model)
        self.local_s = 0.0

    def take(self, batch: Bagged) -> None:
        at, model, inference = self.block.snapshot.frontier.positions[0], self._model, self._spec.inference
        shards = np.zeros(len(batch.labels), dtype=np.intp)
        if self._scored:
            statistics, found, _ = learning.learn(model, inference, [self.block], batch, shards, self._starts)
        else:
            statistics, found = self._learned(batch, shards), 0.0
        rows, keys = learning.by_word(batch, statistics, np.arange(len(batch.labels)))
        n, version = batch.documents.n, self.block.snapshot.version
        came = Provenance(self._spec.fingerprint, "bench", "", 0, at, at + n, version)
        increment = Increment(came, Counts(n, score=found), Change(rows, keys=keys))
        snapshot, _ = fold.add(model, inference, self.block, increment)
        self.block = self.block._replace(snapshot=replace(snapshot, version=snapshot.version + 1))

    def _learned(self, batch: Bagged, shards: learning.ShardOf) -> Matrix:
        """What `word_learning.learn` does, without the score."""
        model, inference, blocks = self._model, self._spec.inference, [self.block]
        topics = learning.topics_of(model, inference, blocks, batch.labels, shards)
        if inference.method != "svi":
            return learning.change(model, inference, blocks, batch, shards, self._starts, topics).statistics
        topics = learning.started(inference, blocks, batch.labels, shards, topics, self._starts)
        began = time.perf_counter()
        statistics = local(topics, batch.documents, model.alpha).statistics
        self.local_s += time.perf_counter() - began
        return statistics

    def topics(self, corpus: Corpus) -> Topics:
        """Of all words, in their order."""
        shards = np.zeros(corpus.words, dtype=np.intp)
        return learning.topics_of(self._model, self._spec.inference, [self.block], labels(corpus), shards)


def batches(corpus: Corpus, documents: Documents) -> list[Bagged]:
    """Minibatches with their own words, as a worker makes them of records."""
    named, made = labels(corpus), []
    for batch in documents.split(corpus.minibatch):
        present, compact = batch.compact()
        made.append(Bagged(tuple(named[word] for word in present.tolist()), compact))
    return made


def main(task: TopicTask) -> Learned:
    if not task.compiled:
        sys.modules["numba"] = None  # type: ignore[assignment]  # as where it is not installed
    of = given(task.corpus)
    spec, made = spec_of("bench", task.corpus, task.method), batches(task.corpus, of.learned)
    Loop(spec, task.scored).take(made[0])  # what is compiled is compiled now
    loop = Loop(spec, task.scored)
    began = time.perf_counter()
    for batch in made:
        loop.take(batch)
    seconds = time.perf_counter() - began
    counted = head_of(_lda(spec), loop.block.snapshot.payload.statistics).n_words
    nats = score(loop.topics(task.corpus), of.held_out)
    return Learned(of.learned.n, seconds, counted, nats, loop.local_s)


def _lda(spec: Spec) -> Lda:
    assert spec.words is not None
    return spec.words


if __name__ == "__main__":
    tell(main(received()))
