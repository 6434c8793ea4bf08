"""LDA on real documents, by how well half a chapter that was held out foretells the other half.

Every run is deterministic. Beside each limit stand the scores of starts 0, 1 and 2, in nats for each word; words of 200
chapters are scored, and the standard error of a difference between two methods is about 0.01.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from streaminfer.models.documents import Documents
from streaminfer.variational.lda.topics import Topics
from tests.variational.corpora import Setting, chapters, held_out, svb, svi, unigram


@cache
def corpus() -> tuple[Setting, Documents, Documents]:
    """989 chapters to learn from and 200 to score."""
    words, documents = chapters()
    return Setting(words, 10, 0.1, 0.1), documents.select(np.arange(200, documents.n)), documents.select(np.arange(200))


def above_unigram(topics: Topics) -> float:
    setting, train, rest = corpus()
    return held_out(setting, topics, rest) - unigram(train, rest, len(setting.words))


@cache
def streamed(size: int, stale: int = 0) -> float:
    setting, train, _ = corpus()
    return above_unigram(svb(setting, train.split(size), iterations=5, stale=stale))


@cache
def stochastic(tau: float) -> float:
    setting, train, _ = corpus()
    return above_unigram(svi(setting, train.split(64), passes=1, tau=tau))
