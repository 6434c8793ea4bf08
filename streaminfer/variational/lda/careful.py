"""The loop over a document in logarithms: slow, and right whenever float64 has the parameters themselves.

exp(psi(x)) is 0 below x = 0.0014 or so. If it is 0 for all topics of a word, phi is 0 / 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streaminfer.families.special import psi
from streaminfer.models.model import Matrix, Vector


class Fitted(NamedTuple):
    """For one document: gamma (K,), phi (entries, K) under it, and how many times it was gone through."""

    gamma: Vector
    phi: Matrix
    iterations: int


def assigned(logs: Matrix, gamma: Vector) -> Matrix:
    """phi ∝ exp(E[log theta] + E[log beta]) for words with E[log beta] = logs (..., K) and gamma (..., K)."""
    scores = psi(gamma) + logs
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    phi: Matrix = weights / weights.sum(axis=-1, keepdims=True)
    return phi


def fit(logs: Matrix, counts: Vector, alpha: Vector, gamma: Vector, tolerance: float, most: int) -> Fitted:
    """gamma <- alpha + sum over words of count phi, until it changes by less than `tolerance` on average.

    `logs` (entries, K) are E[log beta] of the document's words, `counts` (entries,) and the first gamma (K,).
    """
    done, iterations = False, 0
    while not done and iterations < most:
        before, gamma = gamma, alpha + counts @ assigned(logs, gamma)
        iterations += 1
        done = bool(np.abs(gamma - before).mean() < tolerance)
    return Fitted(gamma, assigned(logs, gamma), iterations)
