"""Document completion: how well the first half of a document predicts the second.

The honest score of documents that topics have not absorbed: no word that is scored was seen by what predicts it
(Wallach et al. 2009, section 5.1).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.lda.documents import Documents
from streaminfer.models.model import Matrix, Vector
from streaminfer.variational.lda.local import MOST, local
from streaminfer.variational.lda.topics import Topics

LARGEST: Final = 2.0**53
"""Above this a count is halved, as it need not be a whole number that a coin can be thrown for."""
LEAST: Final = 1e-300
"""No word is less likely than this."""


class Completed(NamedTuple):
    """log p(second half | first half) in nats and the number of words in the second half, both (n,)."""

    log_predictive: Vector
    lengths: Vector

    def mean(self) -> float:
        """Nats for each word that was scored."""
        return float(self.log_predictive.sum() / self.lengths.sum())


def halves(documents: Documents, seed: int) -> tuple[Documents, Documents]:
    """Each word of each document goes to the first or the second half by a coin of its own.

    The same seed and documents give the same halves. A coin knows nothing of the words, while an even split of equal
    words would tell the second half from the first. A fraction of a word goes to the second half.
    """
    whole = np.floor(np.minimum(documents.counts, LARGEST))
    thrown = np.random.default_rng(seed).binomial(whole.astype(np.int64), 0.5).astype(np.float64)
    first = np.where(documents.counts > LARGEST, 0.5 * documents.counts, thrown)
    return documents.with_counts(first), documents.with_counts(documents.counts - first)


def score(
    topics: Topics,
    documents: Documents,
    alpha: float | Vector,
    seed: int,
    tolerance: float | None = None,
    most: int = MOST,
) -> Completed:
    """Fits gamma to the first halves and scores the second: count · log sum over topics of E[theta] E[beta]."""
    first, second = halves(documents, seed)
    gamma = local(topics, first, alpha, None, None, tolerance, most).gamma
    return predicted(topics, second, gamma)


def predicted(topics: Topics, documents: Documents, gamma: Matrix) -> Completed:
    """The log predictive density of documents whose topics are known to be about gamma (n, K)."""
    theta = gamma / gamma.sum(axis=1, keepdims=True)
    owners, means = documents.owners, topics.means()
    density = np.einsum("ek,ek->e", theta[owners], means[documents.words])
    terms = documents.counts * np.log(np.maximum(density, LEAST))
    return Completed(np.bincount(owners, terms, documents.n).astype(np.float64, copy=False), documents.lengths)
