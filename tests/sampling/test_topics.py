"""Expected counts of topics beside enumeration, and topics of two obvious groups of words.

Checks leave 5.5 Monte Carlo standard errors.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from streaminfer.models.lda.documents import Documents
from streaminfer.sampling.kernels import fast, sgrld, topics
from streaminfer.sampling.randomness import Key

KEY = Key(30, "steps")
TOPICS = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
ALPHA = np.array([0.4, 1.1])
DOCUMENTS = Documents.of([{0: 2.0, 2: 1.0}, {}, {1: 3.0, 2: 1.0}])


def enumerated() -> np.ndarray:
    """E n_kw of the three documents (the second is empty), by all topics of their tokens."""
    total = np.zeros((2, 3))
    for tokens in ([0, 0, 2], [1, 1, 1, 2]):
        counts, mass = np.zeros((2, 3)), 0.0
        for chosen in itertools.product(range(2), repeat=len(tokens)):
            n = np.bincount(chosen, minlength=2)
            weight = math.exp(sum(math.lgamma(a + c) - math.lgamma(a) for a, c in zip(ALPHA, n, strict=True)))
            weight *= math.prod(TOPICS[k, w] for k, w in zip(chosen, tokens, strict=True))
            mass += weight
            for k, w in zip(chosen, tokens, strict=True):
                counts[k, w] += weight
        total += counts / mass
    return total


def test_expected_counts_are_those_of_all_assignments() -> None:
    found = np.array(
        [topics.expected_counts(TOPICS, DOCUMENTS, ALPHA, KEY.generator(i), sweeps=40, burn=10) for i in range(400)]
    )
    error = found.std(axis=0) / np.sqrt(len(found))
    # Ten sweeps are enough for a start by words to be forgotten.
    assert (np.abs(found.mean(axis=0) - enumerated()) < 5.5 * error + 1e-9).all()
    np.testing.assert_allclose(found.sum(axis=1), np.broadcast_to([2.0, 3.0, 2.0], (400, 3)))


@pytest.mark.parametrize("alpha", [0.1, ALPHA])
def test_the_same_numbers_without_numba(alpha: float | np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = topics.expected_counts(TOPICS, DOCUMENTS, alpha, KEY.generator(1))
    assert fast.loops() is not None
    monkeypatch.setattr(topics, "kernel", lambda: None)
    np.testing.assert_array_equal(topics.expected_counts(TOPICS, DOCUMENTS, alpha, KEY.generator(1)), compiled)


def test_topics_of_two_groups_of_words_are_found() -> None:
    """200 documents of 20 tokens: each topic has words of its own, and minibatches of 20 documents find them."""
    rng, words = np.random.default_rng(31), 10
    truth = np.zeros((2, words))
    truth[0, :5], truth[1, 5:] = 0.2, 0.2
    bags = []
    for _ in range(200):
        shares = rng.dirichlet([0.5, 0.5])
        bags.append(np.bincount(rng.choice(words, 20, p=shares @ truth), minlength=words))
    state = sgrld.init(KEY.generator(0).gamma(1.0, 1.0, (2, words)))
    mean = np.zeros((2, words))
    for t in range(1200):
        chosen = rng.choice(200, 20, replace=False)
        documents = Documents.of({w: float(bags[i][w]) for w in np.flatnonzero(bags[i])} for i in chosen)
        p = sgrld.probabilities(state.weights)
        counts = 10 * topics.expected_counts(p, documents, 0.5, KEY.generator(t + 1))
        state, info = sgrld.advance(state, 0.5, counts, rng, 1e-3)
        assert not info.n_undone
        mean += (t >= 600) * sgrld.probabilities(state.weights) / 600
    order = [0, 1] if mean[0, :5].sum() > 0.5 else [1, 0]
    assert mean[order[0], :5].sum() > 0.95
    assert mean[order[1], 5:].sum() > 0.95
    np.testing.assert_allclose(mean[order], truth, atol=0.06)


def test_counts_are_whole() -> None:
    with pytest.raises(ValueError, match="must be whole"):
        topics.expected_counts(TOPICS, Documents.of([{0: 1.5}]), 0.1, KEY.generator(0))
