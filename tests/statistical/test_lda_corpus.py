"""LDA on real documents, by how well half a chapter that was held out foretells the other half.

Every run is deterministic. Beside each limit stand the scores of starts 0, 1 and 2, in nats for each word; words of 200
chapters are scored, and the standard error of their mean above the unigram model's is 0.022.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from streaminfer.models.documents import Documents
from streaminfer.variational.lda.absorb import absorb
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


def test_one_pass_foretells_better_than_the_words_frequencies() -> None:
    """SVB 0.248, 0.271, 0.286; SVI 0.375, 0.336, 0.308."""
    assert streamed(256) > 0.15
    assert stochastic(16.0) > 0.2


def test_topics_from_a_constant_start_do_not() -> None:
    setting, train, _ = corpus()
    equal = absorb(setting.prior, train, setting.alpha, None, np.ones((len(setting.words), setting.k)), 2)
    assert above_unigram(setting.prior.plus(equal.statistics)) < 0.02


def test_small_minibatches_cost_quality() -> None:
    """0.146, 0.167, 0.208 between minibatches of 256 and of 8 chapters."""
    assert streamed(256) - streamed(8) > 0.08


def test_increments_four_minibatches_late_lose_little() -> None:
    """They gain 0.004, 0.009, 0.010 here."""
    assert streamed(64, stale=4) > streamed(64) - 0.03


def test_first_steps_that_are_too_large_cost_quality() -> None:
    """0.097, 0.064, 0.058 between tau = 16 and tau = 1, whose first step forgets the start for one minibatch."""
    assert stochastic(16.0) - stochastic(1.0) > 0.03
