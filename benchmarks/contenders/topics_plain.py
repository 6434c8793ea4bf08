"""Our local step in the plainest loop, which the peers' own are: all of lambda in one array, steps on all of it.

The start stands for the statistics until the steps have outweighed it (Hoffman et al. 2010, algorithm 2).
"""

from __future__ import annotations

import sys
import time

from benchmarks.contenders.topic_task import Learned, TopicTask, received, tell
from benchmarks.corpus import ALPHA, KAPPA, given, labels, score
from streaminfer.variational.lda.local import local
from streaminfer.variational.lda.start import start
from streaminfer.variational.lda.topics import prior


def main(task: TopicTask) -> Learned:
    if not task.compiled:
        sys.modules["numba"] = None  # type: ignore[assignment]  # as where it is not installed
    corpus, of = task.corpus, given(task.corpus)
    nothing = prior(corpus.words, corpus.concentration, corpus.topics, corpus.words)._replace(by_mean=True)
    batches, statistics = of.learned.split(corpus.minibatch), start(labels(corpus), corpus.topics, 0)
    local(nothing.plus(statistics), batches[0], ALPHA)  # what is compiled is compiled now
    local_s, words, began = 0.0, 0.0, time.perf_counter()
    for t, batch in enumerate(batches, 1):
        topics, begun = nothing.plus(statistics), time.perf_counter()
        found = local(topics, batch, ALPHA).statistics
        local_s += time.perf_counter() - begun
        rho = (corpus.tau + t) ** -KAPPA
        statistics *= 1 - rho
        statistics += rho * corpus.documents / batch.n * found
        words += float(found.sum())
    seconds = time.perf_counter() - began
    return Learned(of.learned.n, seconds, words, score(nothing.plus(statistics), of.held_out), local_s)


if __name__ == "__main__":
    tell(main(received()))
