"""Topics of documents for sgrld: how often each topic has each word, expected given the topics (Patterson & Teh 2013).

A document's proportions are summed out, so a token's topic has the probability (alpha + n_k) p_kw given the topics of
the document's other tokens. Gibbs sweeps over the tokens of a minibatch of documents give the expectations.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import numpy as np

from streaminfer.models.lda.documents import Documents, Numbers
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.corpus import Corpus

TOKENS: Final = 1 << 18
"""Tokens whose random numbers are held at once: 23 MB."""


def expected_counts(
    topics: Matrix,
    documents: Documents,
    alpha: float | Vector,
    rng: np.random.Generator,
    sweeps: int = 10,
    burn: int = 3,
) -> Matrix:
    """The mean number of tokens of each topic and word, (K, W), over sweeps after the first `burn`.

    `topics` (K, W) are the probabilities of words in each topic, `alpha` the concentration of a document's topics.
    """
    if not (documents.counts == np.floor(documents.counts)).all():
        raise ValueError("counts of words must be whole: a token has one topic")
    k, _ = topics.shape
    prior = np.ascontiguousarray(np.broadcast_to(np.asarray(alpha, dtype=np.float64), (k,)))
    repeats = documents.counts.astype(np.intp)
    ends = np.concatenate([[0], np.cumsum(repeats)])
    starts = ends[documents.starts]
    found, shares = np.zeros((topics.shape[1], k)), np.ascontiguousarray(topics.T)
    loop: Any = kernel() or scan
    for first, last in _groups(starts):
        entries = slice(documents.starts[first], documents.starts[last])
        tokens = np.repeat(documents.words[entries], repeats[entries])
        uniforms = rng.random((sweeps + 1, len(tokens)))
        loop(shares, starts[first : last + 1] - starts[first], tokens, prior, uniforms, burn, found)
    return np.ascontiguousarray(found.T) / (sweeps - burn)


def _groups(starts: Numbers) -> Iterator[tuple[int, int]]:
    """Documents [first, last) that have TOKENS tokens together at most, or are one; `starts` (n + 1,) in tokens."""
    first, n = 0, len(starts) - 1
    while first < n:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + TOKENS, side="right")) - 1)
        yield first, last
        first = last


@cache
def kernel() -> Any:
    """`scan` as machine code, None without numba."""
    from streaminfer.sampling.kernels import fast

    loops = fast.loops()
    return None if loops is None else loops.jit(scan)


def scan(
    shares: Matrix, starts: Numbers, tokens: Numbers, alpha: Vector, uniforms: Matrix, burn: int, found: Matrix
) -> None:
    """Adds the topics of every token after each sweep beyond `burn` to `found` (W, K).

    Plain loops, as numba wants them. The first row of uniforms is for a start by the words alone.
    """
    k = shares.shape[1]
    mass, own = np.empty(k), np.empty(k)
    topic = np.empty(len(tokens), dtype=np.int64)
    for d in range(len(starts) - 1):
        own[:] = 0.0
        for sweep in range(len(uniforms)):
            for i in range(starts[d], starts[d + 1]):
                if sweep > 0:
                    own[topic[i]] -= 1.0
                total = 0.0
                for j in range(k):
                    total += (alpha[j] + own[j]) * shares[tokens[i], j]
                    mass[j] = total
                at, chosen = uniforms[sweep, i] * total, 0
                while chosen < k - 1 and mass[chosen] < at:
                    chosen += 1
                topic[i] = chosen
                own[chosen] += 1.0
                if sweep > burn:
                    found[tokens[i], chosen] += 1.0


def scaled_counts(topics: Matrix, corpus: Corpus, which: Numbers, rng: np.random.Generator) -> Matrix:
    """N/B times the expected counts (K, W) of the B documents of these numbers."""
    documents = corpus.documents(which)
    present, compact = documents.compact()
    counts = np.zeros(topics.shape)
    counts[:, present] = expected_counts(topics[:, present], compact, corpus.target.alpha, rng)
    counts *= corpus.n / len(which)
    return counts
