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
BLOCK: Final = 2**19
"""Numbers in a block: 4 MB, so that a turn takes longer than the calls it is made of."""
CROWDED: Final = 0.6
"""The part of a block's documents that must still move, or others take the places of those that do not."""
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
    """D documents padded to L entries, with counts of 0 and a word that is there."""

    members: Numbers
    """(D,), which documents they are."""
    places: Numbers
    """(D, L), where their entries are."""
    there: Flags
    """(D, L), where there is no padding."""
    counts: Matrix
    """(D, L)"""
    shares: NDArray[np.float64]
    """(D, L, K)"""


class _State(NamedTuple):
    """Where each document is: gamma (n, K), turns taken (n,), and whether its sums left float64 (n,)."""

    gamma: Matrix
    turns: Numbers
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
    prior = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (k,))
    first = prior + documents.lengths[:, None] / k if gamma is None else gamma
    state = _State(first.copy(), np.zeros(documents.n, dtype=np.intp), np.zeros(documents.n, dtype=np.bool_))
    state.gamma[documents.entries == 0] = prior
    shares = _shares(topics)
    _ascend_all(shares, documents, prior, state, tolerance, most)
    counted = np.ones(documents.n) if weights is None else weights
    statistics = shares * _spread(shares, documents, state.gamma, np.where(state.lost, 0.0, counted))
    for d in np.flatnonzero(state.lost):
        own = slice(documents.starts[d], documents.starts[d + 1])
        words, counts = documents.words[own], documents.counts[own]
        logs = Topics(topics.rows[words], topics.totals).logs()
        state.gamma[d], phi, state.turns[d] = careful.fit(logs, counts, prior, first[d], tolerance, most)
        statistics[words] += counted[d] * counts[:, None] * phi
    return Local(statistics, state.gamma, state.turns)


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


def _ascend_all(
    shares: Matrix, documents: Documents, alpha: Vector, state: _State, tolerance: float, most: int
) -> None:
    """Goes through all documents with words, the shortest first, in blocks that are filled up as documents end."""
    entries = documents.entries
    waiting = np.argsort(entries, kind="stable")[np.count_nonzero(entries == 0) :]
    moving = waiting[:0]
    while len(moving) + len(waiting) > 0:
        new = _room(entries[waiting], shares.shape[1], len(moving))
        block = _block(shares, documents, np.concatenate([moving, waiting[:new]]))
        waiting = waiting[new:]
        moving = _ascend(block, alpha, state, tolerance, most)


def _room(entries: Numbers, k: int, taken: int) -> int:
    """How many of documents with ascending `entries` a block with `taken` others has room for; one at least if any."""
    sizes = (taken + 1 + np.arange(len(entries))) * entries * k
    return max(int(np.searchsorted(sizes, BLOCK, side="right")), min(1, len(entries)))


def _block(shares: Matrix, documents: Documents, members: Numbers) -> _Block:
    entries = documents.entries[members]
    across = np.arange(entries.max())
    there = across < entries[:, None]
    places = documents.starts[members][:, None] + np.where(there, across, 0)
    counts = np.where(there, documents.counts[places], 0.0)
    return _Block(members, places, there, counts, shares.take(documents.words[places], axis=0))


def _ascend(block: _Block, alpha: Vector, state: _State, tolerance: float, most: int) -> Numbers:
    """Takes turns with all documents of a block while most of them move, and returns those that still do.

    What a document ends with is its own last turn, whatever the others of its block need.
    """
    members, moving = block.members, np.ones(len(block.members), dtype=np.bool_)
    gamma, turns = state.gamma[members], state.turns[members]
    while np.count_nonzero(moving) > CROWDED * len(members):
        theta = _theta(gamma)
        sums = np.matmul(block.shares, theta[:, :, None])[:, :, 0]
        if sums.min() < TINY:
            state.lost[members] |= moving & (sums.min(axis=1) < TINY)
            np.maximum(sums, TINY, out=sums)
        after = np.matmul((block.counts / sums)[:, None, :], block.shares)[:, 0, :]
        after *= theta
        after += alpha
        turns += moving
        gamma -= after
        ended = moving & ((np.abs(gamma, out=gamma).mean(axis=1) < tolerance) | (turns >= most))
        gamma = after
        state.gamma[members[ended]] = gamma[ended]
        moving &= ~ended
    state.gamma[members[moving]], state.turns[members] = gamma[moving], turns
    return members[moving]


def _spread(shares: Matrix, documents: Documents, gamma: Matrix, weights: Vector) -> Matrix:
    """The sum over documents of weight · count · phi by share, (m, K)."""
    from scipy import sparse

    theta = _theta(gamma)
    ratios = np.empty(len(documents.words))
    owners, step = documents.owners, max(1, BLOCK // shares.shape[1])
    for begin in range(0, len(ratios), step):
        own = slice(begin, begin + step)
        sums = np.einsum("ek,ek->e", shares.take(documents.words[own], axis=0), theta.take(owners[own], axis=0))
        ratios[own] = documents.counts[own] / np.maximum(sums, TINY)
    ratios *= weights[owners]
    table = sparse.csr_array((ratios, documents.words, documents.starts), shape=(documents.n, len(shares)))
    return np.asarray(table.T @ theta, dtype=np.float64)
