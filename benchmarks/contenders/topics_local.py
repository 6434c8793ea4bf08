"""Our local step alone, on topics that are known well: the limit of everything that learns topics with it."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.contenders.topic_task import Learned, TopicTask, received, tell
from benchmarks.corpus import ALPHA, CONCENTRATION, Drawn, drawn
from streaminfer.models.lda.documents import Documents, Numbers
from streaminfer.variational.lda.local import local
from streaminfer.variational.lda.topics import Topics


def known(of: Drawn) -> Topics:
    """The true topics, as if the documents' words had been counted."""
    rows = CONCENTRATION + of.learned.counts.sum() / len(of.truth) * of.truth.T
    return Topics(rows, rows.sum(axis=0), by_mean=True)


def main(task: TopicTask) -> Learned:
    of = drawn(task.corpus)
    topics = known(of)
    given = [batch.compact() for batch in of.learned.split(task.corpus.minibatch)]
    _step(topics, *given[0])  # what is compiled is compiled now
    began = time.perf_counter()
    counted = sum(_step(topics, *batch) for batch in given)
    seconds = time.perf_counter() - began
    return Learned(of.learned.n, seconds, counted, float("nan"), seconds)


def _step(topics: Topics, present: Numbers, documents: Documents) -> float:
    """How many words the statistics have: those of the documents."""
    found = local(topics._replace(rows=topics.rows[present]), documents, ALPHA)
    return float(np.sum(found.statistics))


if __name__ == "__main__":
    tell(main(received()))
