"""The local step: the best q of every document's topics, given q of the topics' words.

Most of the time is spent here. See `compiled` for the fastest loop over documents, `blocks` for the one that needs no
compiler, and `careful` for documents that neither can hold.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.lda.documents import Documents, Numbers
from streaminfer.models.model import Matrix, Vector
from streaminfer.variational.lda import blocks, careful, compiled
from streaminfer.variational.lda.blocks import TINY, State, theta_of
from streaminfer.variational.lda.topics import Topics

TOLERANCE: Final = 1e-3
"""A mean change of a document's gamma below this is none."""
BY_MEAN: Final = 1e-2
"""The same of documents that are fitted to mean probabilities; less does not pay."""
MOST: Final = 100
"""Turns of the loop for one document, at most."""


class Local(NamedTuple):
    """What a minibatch says of the topics, and of each of its documents."""

    statistics: Matrix
    """(m, K): the sum over documents of weight · count · phi, for each word at hand."""
    gamma: Matrix
    """(n, K)"""
    iterations: Numbers
    """(n,): 0 of a document without words."""


def local(
    topics: Topics,
    documents: Documents,
    alpha: float | Vector,
    weights: Vector | None = None,
    gamma: Matrix | None = None,
    tolerance: float | None = None,
    most: int = MOST,
) -> Local:
    """Coordinate ascent on phi and gamma of each document alone (Hoffman et al. 2010, algorithm 1).

    `alpha` is the concentration of a document's topics, one or (K,), above 0. `weights` (n,) say how often a document
    counts in the statistics. The loop starts from `gamma` (n, K); without it every topic has an equal part of the
    words.
    """
    k = topics.rows.shape[1]
    prior = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (k,))
    first = prior + documents.lengths[:, None] / k if gamma is None else gamma
    state = State(first.copy(), np.zeros(documents.n, dtype=np.intp), np.zeros(documents.n, dtype=np.bool_))
    state.gamma[documents.entries == 0] = prior
    shares = _shares(topics)
    if tolerance is None:
        tolerance = BY_MEAN if topics.by_mean else TOLERANCE
    ascend = blocks.ascend if compiled.kernel() is None else compiled.ascend
    ascend(shares, documents, prior, state, tolerance, most)
    counted = np.ones(documents.n) if weights is None else weights
    statistics = shares * _spread(shares, documents, state, counted)
    for d in np.flatnonzero(state.lost):
        own = slice(documents.starts[d], documents.starts[d + 1])
        words, counts = documents.words[own], documents.counts[own]
        logs = topics._replace(rows=topics.rows[words]).logs()
        state.gamma[d], phi, state.turns[d] = careful.fit(logs, counts, prior, first[d], tolerance, most)
        statistics[words] += counted[d] * counts[:, None] * phi
    return Local(statistics, state.gamma, state.turns)


def _shares(topics: Topics) -> Matrix:
    """exp(E[log beta]), each word's divided by its largest, as phi does not change if those of a word are scaled."""
    logs = topics.logs()
    logs -= logs.max(axis=1, keepdims=True)
    return np.exp(logs, out=logs)


def _spread(shares: Matrix, documents: Documents, state: State, weights: Vector) -> Matrix:
    """The sum over documents that are not lost of weight · count · phi by share, (m, K)."""
    from scipy import sparse

    theta, owners, step = theta_of(state.gamma), documents.owners, max(1, blocks.BLOCK // shares.shape[1])
    sums = np.empty(len(owners))
    for begin in range(0, len(owners), step):
        own = slice(begin, begin + step)
        words = shares.take(documents.words[own], axis=0)
        sums[own] = np.einsum("ek,ek->e", words, theta.take(owners[own], axis=0))
    state.lost[owners[sums < TINY]] = True
    kept = np.where(state.lost, 0.0, weights)[owners]
    ratios = kept * documents.counts / np.maximum(sums, TINY)
    table = sparse.csr_array((ratios, documents.words, documents.starts), shape=(documents.n, len(shares)))
    return np.asarray(table.T @ theta, dtype=np.float64)
