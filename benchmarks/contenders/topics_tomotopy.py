"""tomotopy: collapsed Gibbs sampling of all documents at once, SWEEPS times; no stream, but what many use."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.contenders.topic_task import Learned, TopicTask, received, tell
from benchmarks.corpus import ALPHA, given, score
from streaminfer.variational.lda.topics import Topics

SWEEPS = 50


def main(task: TopicTask) -> Learned:
    import tomotopy

    corpus, of = task.corpus, given(task.corpus)
    model = tomotopy.LDAModel(k=corpus.topics, alpha=ALPHA, eta=corpus.concentration, seed=1)
    model.optim_interval = 0  # alpha stays what everybody's is
    repeated, starts = of.learned.counts.astype(int), of.learned.starts
    for d in range(of.learned.n):
        own = slice(starts[d], starts[d + 1])
        model.add_doc([str(word) for word in np.repeat(of.learned.words[own], repeated[own]).tolist()] or ["0"])
    model.train(0, workers=1)
    began = time.perf_counter()
    model.train(SWEEPS, workers=1)
    seconds = time.perf_counter() - began
    used = np.array([int(word) for word in model.used_vocabs])
    shares = np.array([model.get_topic_word_dist(k) for k in range(corpus.topics)])
    totals = np.array(model.get_count_by_topics()) + corpus.concentration * len(used)
    rows = np.full((corpus.words, corpus.topics), corpus.concentration)
    rows[used] = (shares * totals[:, None]).T
    return Learned(of.learned.n, seconds, model.num_words, score(Topics(rows, rows.sum(axis=0)), of.held_out))


if __name__ == "__main__":
    tell(main(received()))
