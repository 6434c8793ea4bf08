"""The local step: the best q of every document's topics, given q of the topics' words.

This is where the time goes. Documents of similar length lie in one padded block, so that a turn of the loop is two
products of a stack of matrices with vectors (BLAS), and a block is small enough to stay in the cache.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import psi
from streaminfer.models.documents import Documents, Numbers
from streaminfer.models.model import Flags, Matrix, Vector
from streaminfer.variational.lda import careful
from streaminfer.variational.lda.topics import Topics

TOLERANCE: Final = 1e-3
"""A mean change of a document's gamma below this is none."""
MOST: Final = 100
"""Turns of the loop for one document, at most."""
BLOCK: Final = 2**18
"""Numbers in a block: 2 MB, what a core's cache holds."""
CROWDED: Final = 0.8
"""The part of a block's documents that must still move, or the others are taken out."""
TINY: Final = 1e-150
"""A sum over topics below this has lost digits, or will with large counts: such documents are left to `careful`."""


class Local(NamedTuple):
    """What a minibatch says of the topics, and of each of its documents."""

    statistics: Matrix
    """(m, K): the sum over documents of weight · count · phi, for each word at hand."""
    gamma: Matrix
    """(n, K)"""
    iterations: Numbers
    """(n,): 0 of a document without words."""


class _Block(NamedTuple):
    """Documents padded to L entries: counts (D, L) of 0 and shares (D, L, K) of a word that is there are the padding."""

    shares: NDArray[np.float64]
    counts: Matrix


class _Ended(NamedTuple):
    gamma: Matrix
    iterations: Numbers
    lost: Flags


def local(
    topics: Topics,
    documents: Documents,
    alpha: float | Vector,
    weights: Vector | None = None,
    gamma: Matrix | None = None,
    tolerance: float = TOLERANCE,
    most: int = MOST,
) -> Local:
    """Coordinate ascent on phi and gamma of each document alone (Hoffman et al. 2010, algorithm 1).

    `alpha` is the concentration of a document's topics, one or (K,), above 0; `weights` (n,) say how often a document
    counts in the statistics; `gamma` (n, K) is where the loop starts, else every topic has an equal part of the words.
    """
    k = topics.rows.shape[1]
    concentration = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (k,))
    if gamma is None:
        gamma = concentration + documents.lengths[:, None] / k
    ended = _Ended(gamma.copy(), np.zeros(documents.n, dtype=np.intp), np.zeros(documents.n, dtype=np.bool_))
    shares, ratios, thetas = _shares(topics), np.zeros(len(documents.words)), np.zeros((documents.n, k))
    for members in _blocks(documents, k):
        places, there = _places(documents, members)
        block = _Block(shares[documents.words[places]], np.where(there, documents.counts[places], 0.0))
        _ascend(block, concentration, members, ended, tolerance, most)
        theta = _theta(ended.gamma[members])
        thetas[members] = theta
        ratios[places[there]] = (block.counts / _sums(block, theta))[there]
    ended.gamma[documents.entries == 0] = concentration
    counted = np.ones(documents.n) if weights is None else weights
    kept = np.where(ended.lost, 0.0, counted)
    statistics = shares * _spread(documents, ratios * kept[documents.owners], thetas, len(shares))
    for d in np.flatnonzero(ended.lost):
        own = slice(documents.starts[d], documents.starts[d + 1])
        words, counts = documents.words[own], documents.counts[own]
        logs = Topics(topics.rows[words], topics.totals).logs()
        fitted = careful.fit(logs, counts, concentration, gamma[d], tolerance, most)
        ended.gamma[d], ended.iterations[d] = fitted.gamma, fitted.iterations
        statistics[words] += counted[d] * counts[:, None] * fitted.phi
    return Local(statistics, ended.gamma, ended.iterations)


def _shares(topics: Topics) -> Matrix:
    """exp(E[log beta]), each word's by its largest, as phi does not change where they are scaled by a word."""
    logs = topics.logs()
    logs -= logs.max(axis=1, keepdims=True)
    return np.exp(logs, out=logs)


def _theta(gamma: Matrix) -> Matrix:
    """exp(E[log theta]), each document's by its largest."""
    logs = psi(gamma)
    logs -= logs.max(axis=1, keepdims=True)
    return np.exp(logs, out=logs)


def _blocks(documents: Documents, k: int) -> list[Numbers]:
    """The numbers of documents with words, longest first, cut where a padded block is full."""
    entries = documents.entries
    order = np.argsort(-entries, kind="stable")[: np.count_nonzero(entries)]
    blocks, first = [], 0
    while first < len(order):
        size = max(1, BLOCK // (int(entries[order[first]]) * k))
        blocks.append(order[first : first + size])
        first += size
    return blocks


def _places(documents: Documents, members: Numbers) -> tuple[Numbers, Flags]:
    """The entries of documents, padded with their first ones, and where they are no padding; both (D, L)."""
    entries = documents.entries[members]
    across = np.arange(entries.max())
    there = across < entries[:, None]
    return documents.starts[members][:, None] + np.where(there, across, 0), there


def _sums(block: _Block, theta: Matrix) -> Matrix:
    """The sum over topics of theta times share for each entry, (D, L)."""
    return np.maximum(np.matmul(block.shares, theta[:, :, None])[:, :, 0], TINY)


def _ascend(
    block: _Block, alpha: Vector, members: Numbers, ended: _Ended, tolerance: float, most: int
) -> None:
    """Goes on with all documents of a block until each has ended, and writes where it ended at its place.

    A document's gamma is that of its own last turn, whatever the others of its block need.
    """
    gamma, moving = ended.gamma[members], np.ones(len(members), dtype=np.bool_)
    for turn in range(1, most + 1):
        theta = _theta(gamma)
        sums = _sums(block, theta)
        ended.lost[members] |= moving & (sums.min(axis=1) <= TINY)
        after = np.matmul((block.counts / sums)[:, None, :], block.shares)[:, 0, :]
        after *= theta
        after += alpha
        still = moving & (np.abs(after - gamma).mean(axis=1) >= tolerance) & (turn < most)
        gamma, now = after, moving & ~still
        ended.gamma[members[now]], ended.iterations[members[now]] = gamma[now], turn
        moving, left = still, np.count_nonzero(still)
        if left == 0:
            return
        if left <= CROWDED * len(members):
            members, gamma, moving = members[still], gamma[still], moving[still]
            block = _Block(block.shares[still], block.counts[still])


def _spread(documents: Documents, ratios: Vector, thetas: Matrix, m: int) -> Matrix:
    """The sum over documents of ratio times theta for each word, (m, K)."""
    from scipy import sparse

    table = sparse.csr_array((ratios, documents.words, documents.starts), shape=(documents.n, m))
    spread: Matrix = table.T @ thetas
    return spread
