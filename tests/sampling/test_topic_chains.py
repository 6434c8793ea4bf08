"""Chains of topics by sgrld: one topic has a Dirichlet posterior, two are compared with collapsed Gibbs.

Checks leave 5.5 Monte Carlo standard errors, from 40 batches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streaminfer.models.lda.documents import Documents
from streaminfer.models.targets.corpus import Corpus, lengths_of, rows_of
from streaminfer.models.targets.kinds.lda import Lda as Target
from streaminfer.sampling.chains import topics as kernel
from streaminfer.sampling.kernels.topics import scaled_counts
from streaminfer.sampling.settings import StepRule
from tests.sampling.topic_chains import batch_errors, draws, model, prepared, settings

WORDS = 6
ROOM = 5.5


def documents(n: int, seed: int, length: int = 12) -> Documents:
    """Of two groups of words that overlap."""
    rng = np.random.default_rng(seed)
    truth = np.array([[0.4, 0.3, 0.15, 0.05, 0.05, 0.05], [0.05, 0.05, 0.05, 0.15, 0.3, 0.4]])
    counts = [rng.multinomial(length, rng.dirichlet([0.3, 0.3]) @ truth) for _ in range(n)]
    return Documents.of([{w: float(c) for w, c in enumerate(row) if c} for row in counts])


def away_from_dirichlet(found: np.ndarray, posterior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and second moments of one topic's draws (n, W), in standard errors from those of a Dirichlet."""
    total, mean = posterior.sum(), posterior / posterior.sum()
    variance = mean * (1 - mean) / (total + 1)
    squares = (found - mean) ** 2
    return (
        (found.mean(axis=0) - mean) / batch_errors(found),
        (squares.mean(axis=0) - variance) / batch_errors(squares),
    )


def one_topic(minibatch: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Draws (n, W) of the only topic of 20 documents, and what its Dirichlet is."""
    corpus = documents(20, 1)
    said = settings(minibatch=minibatch, step=StepRule(size=size), draws=3000, warmup=100)
    made = prepared(model(1, WORDS, concentration=5.0), corpus, said)
    return draws(made)[:, 0], 5.0 + np.bincount(corpus.words, corpus.counts, WORDS)


def test_one_topic_has_the_posterior_of_its_words() -> None:
    """All documents in each step: exact transitions have no error, whatever their size (here 3)."""
    mean, square = away_from_dirichlet(*one_topic(20, 60.0))
    assert np.abs(mean).max() < ROOM
    assert np.abs(square).max() < ROOM


def test_minibatches_of_documents_leave_the_mean() -> None:
    """Five documents of 20 at a time; their noise makes variances a little larger."""
    found, posterior = one_topic(5, 4.0)
    mean, _ = away_from_dirichlet(found, posterior)
    assert np.abs(mean).max() < ROOM
    share = posterior / posterior.sum()
    assert (found.var(axis=0) < 1.4 * share * (1 - share) / (posterior.sum() + 1)).all()


@pytest.mark.parametrize("mutant", ["without N/B", "prior twice"])
def test_planted_mistakes_are_seen(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(topics: np.ndarray, corpus: Corpus, which: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        counts = scaled_counts(topics, corpus, which, rng)
        return counts * len(which) / corpus.n if mutant == "without N/B" else counts + corpus.target.concentration

    monkeypatch.setattr(kernel, "scaled_counts", wrong)
    mean, square = away_from_dirichlet(*one_topic(5 if mutant == "without N/B" else 20, 60.0))
    assert max(np.abs(mean).max(), np.abs(square).max()) > ROOM


def collapsed(corpus: Documents, alpha: float, eta: float, sweeps: int, seed: int) -> np.ndarray:
    """E[topics | assignments] (sweeps, 2, W) of collapsed Gibbs sweeps (Griffiths, Steyvers 2004)."""
    repeats, rng = corpus.counts.astype(int), np.random.default_rng(seed)
    tokens, owners = np.repeat(corpus.words, repeats).tolist(), np.repeat(corpus.owners, repeats).tolist()
    chosen = [int(word >= WORDS // 2) for word in tokens]
    words, topics, shares = [[0] * WORDS, [0] * WORDS], [0, 0], [[0, 0] for _ in range(corpus.n)]

    def count(w: int, d: int, k: int, change: int) -> None:
        words[k][w] += change
        topics[k] += change
        shares[d][k] += change

    for w, d, k in zip(tokens, owners, chosen, strict=True):
        count(w, d, k, 1)
    found = np.empty((sweeps, 2, WORDS))
    for sweep in range(sweeps):
        for i, (w, d, u) in enumerate(zip(tokens, owners, rng.random(len(tokens)).tolist(), strict=True)):
            count(w, d, chosen[i], -1)
            p, q = ((shares[d][k] + alpha) * (words[k][w] + eta) / (topics[k] + WORDS * eta) for k in (0, 1))
            chosen[i] = int(u * (p + q) > p)
            count(w, d, chosen[i], 1)
        found[sweep] = (np.array(words) + eta) / (np.array(topics)[:, None] + WORDS * eta)
    return found


def in_order(topics: np.ndarray) -> np.ndarray:
    """The topic of the first half of the words first."""
    swapped = topics[:, 0, : WORDS // 2].sum(axis=1) < topics[:, 1, : WORDS // 2].sum(axis=1)
    return np.where(swapped[:, None, None], topics[:, ::-1], topics)


def test_two_topics_are_those_of_collapsed_gibbs() -> None:
    corpus = documents(25, 2)
    said = settings(minibatch=25, step=StepRule(size=2.5), draws=1500, thin=3, warmup=300)
    found = in_order(draws(prepared(model(2, WORDS, 0.3, 1.0), corpus, said)))
    right = in_order(collapsed(corpus, 0.3, 1.0, 2000, 4)[100:])
    error = np.hypot(batch_errors(found), batch_errors(right))
    assert (ROOM * error < 0.1).all()
    # Steps are not infinitely short, and few sweeps give their counts: that may cost 0.1 posterior deviations.
    assert (np.abs(found.mean(axis=0) - right.mean(axis=0)) < ROOM * error + 0.1 * found.std(axis=0)).all()


def test_chains_have_the_same_topics_in_the_same_order() -> None:
    """They share a start that lies behind the point where topics part."""
    corpus, made = documents(60, 5), model(2, WORDS, 0.3, 0.5)
    said = settings(minibatch=20, draws=60, step=StepRule(size=2.0))
    means = [draws(prepared(made, corpus, said, unit)).mean(axis=0) for unit in range(4)]
    assert (np.ptp(np.array(means), axis=0) < 0.15).all()
    other = prepared(replace(made, seed=9), corpus, said)
    assert not np.array_equal(other.setup.mode, prepared(made, corpus, said).setup.mode)


def test_rows_have_every_document_even_an_empty_one() -> None:
    given = Documents.of([{}, {0: 2.0, 2: 1.0}, {}, {}, {1: 3.0}, {}])
    rows = rows_of(given)
    corpus = Corpus(Target(model(2, 3)), rows)
    assert (corpus.n, len(rows)) == (6, 7)
    np.testing.assert_array_equal(lengths_of(rows), [1, 2, 1, 1, 1, 1])
    chosen = corpus.documents(np.array([4, 0, 1, 4]))
    np.testing.assert_array_equal(chosen.lengths, [3, 0, 3, 3])
    np.testing.assert_array_equal(chosen.words[chosen.counts > 0], [1, 0, 2, 1])
    np.testing.assert_array_equal(corpus.target.counts(rows), [2, 3, 1])
    assert (Corpus(corpus.target, rows_of(Documents.of([]))).n, len(rows_of(Documents.of([])))) == (0, 0)
