"""Streaming variational Bayes: what a minibatch adds to the topics it starts from."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.lda.documents import Documents
from streaminfer.models.model import Matrix, Vector
from streaminfer.variational.lda.local import MOST, local
from streaminfer.variational.lda.topics import Topics

ITERATIONS: Final = 20
"""Passes over a minibatch at most."""
SETTLED: Final = 1e-2
"""A pass that moves less than this part of the minibatch's words from topic to topic is the last."""


class Absorbed(NamedTuple):
    """The statistics (m, K) of a minibatch, gamma (n, K) of its documents, the passes made and if they were enough."""

    statistics: Matrix
    gamma: Matrix
    passes: int
    converged: bool


def absorb(
    base: Topics,
    documents: Documents,
    alpha: float | Vector,
    weights: Vector | None = None,
    first: Matrix | None = None,
    iterations: int = ITERATIONS,
    settled: float = SETTLED,
    warm: bool = False,
    tolerance: float | None = None,
    most: int = MOST,
) -> Absorbed:
    """A(y, base) - base: coordinate ascent between documents and topics, with the base as the topics' prior.

    `first` (m, K) stands for the statistics in the first pass: `start` of the words if the base has no documents. With
    `warm` documents go on from the gamma they had in the pass before, so the bound never falls. Without it they start
    afresh, and leave topics that they only share by accident.
    """
    topics = base if first is None else base.plus(first)
    statistics, gamma, _ = local(topics, documents, alpha, weights, None, tolerance, most)
    passes, moved = 1, np.inf
    while passes < iterations and moved > settled * statistics.sum():
        before = statistics
        known = gamma if warm else None
        statistics, gamma, _ = local(base.plus(before), documents, alpha, weights, known, tolerance, most)
        moved = 0.5 * np.abs(statistics - before).sum()
        passes += 1
    return Absorbed(statistics, gamma, passes, bool(moved <= settled * statistics.sum()))
