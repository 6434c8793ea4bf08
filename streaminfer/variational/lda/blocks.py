"""The loop over documents in arrays: blocks of documents of similar length, padded.

A turn of the loop is two products of a stack of matrices with vectors (BLAS). They take longer than the calls around
them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import psi
from streaminfer.models.lda.documents import Documents, Numbers
from streaminfer.models.model import Flags, Matrix, Vector

BLOCK: Final = 2**19
"""Numbers in a block: 4 MB, so that a turn takes longer than the calls it is made of."""
CROWDED: Final = 0.6
"""The part of a block's documents that must still move, or others take the places of those that do not."""
TINY: Final = 1e-150
"""A sum over topics below this has lost digits, or will with large counts: such documents are left to `careful`."""


class State(NamedTuple):
    """The state of each document: gamma (n, K), turns taken (n,), and whether its sums left float64 (n,)."""

    gamma: Matrix
    turns: Numbers
    lost: Flags


class _Block(NamedTuple):
    """D documents padded to L entries, with counts of 0 and some word of theirs."""

    members: Numbers
    """(D,), which documents they are."""
    places: Numbers
    """(D, L), the places of their entries."""
    there: Flags
    """(D, L), False for padding."""
    counts: Matrix
    """(D, L)"""
    shares: NDArray[np.float64]
    """(D, L, K)"""


def theta_of(gamma: Matrix) -> Matrix:
    """exp(E[log theta]), each document's by its largest."""
    logs = psi(gamma)
    logs -= logs.max(axis=1, keepdims=True)
    return np.exp(logs, out=logs)


def ascend(shares: Matrix, documents: Documents, alpha: Vector, state: State, tolerance: float, most: int) -> None:
    """Goes through all documents with words, the shortest first, in blocks that are filled up as documents end."""
    entries = documents.entries
    waiting = np.argsort(entries, kind="stable")[np.count_nonzero(entries == 0) :]
    moving = waiting[:0]
    while len(moving) + len(waiting) > 0:
        new = _room(entries[waiting], shares.shape[1], len(moving))
        block = _block(shares, documents, np.concatenate([moving, waiting[:new]]))
        waiting = waiting[new:]
        moving = _turns(block, alpha, state, tolerance, most)


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


def _turns(block: _Block, alpha: Vector, state: State, tolerance: float, most: int) -> Numbers:
    """Takes turns with all documents of a block while most of them move, and returns those that still do.

    What a document ends with is its own last turn, whatever the others of its block need.
    """
    members, moving = block.members, np.ones(len(block.members), dtype=np.bool_)
    gamma, turns = state.gamma[members], state.turns[members]
    while np.count_nonzero(moving) > CROWDED * len(members):
        theta = theta_of(gamma)
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
