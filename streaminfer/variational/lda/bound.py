"""The evidence lower bound of LDA by its definition: what the updates are checked against.

The ELBO is the sum over documents of E[log p(theta) + log p(z | theta) + log p(w | z, beta)] + H(theta) + H(z), less
KL(q(beta) | prior). Nothing here is shared with the fast loop.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.families.special import gammaln, psi, xlogy
from streaminfer.models.lda.documents import Documents
from streaminfer.models.model import Matrix, Vector
from streaminfer.variational.lda import careful
from streaminfer.variational.lda.topics import Topics

PART: Final = 2**20
"""Numbers of phi held at a time."""


def documents_bound(topics: Topics, documents: Documents, alpha: float | Vector, gamma: Matrix) -> Vector:
    """Each document's own terms (n,), under its gamma (n, K) and the best phi given that."""
    n, k = gamma.shape
    prior = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (k,))
    log_theta = psi(gamma) - psi(gamma.sum(axis=1, keepdims=True))
    p_theta = gammaln(prior.sum()) - gammaln(prior).sum() + ((prior - 1) * log_theta).sum(axis=1)
    q_theta = gammaln(gamma.sum(axis=1)) - gammaln(gamma).sum(axis=1) + ((gamma - 1) * log_theta).sum(axis=1)
    logs, owners, step = topics.expected_logs(), documents.owners, max(1, PART // k)
    terms = np.zeros(len(owners))
    for begin in range(0, len(owners), step):
        own = slice(begin, begin + step)
        log_beta, d = logs[documents.words[own]], owners[own]
        phi = careful.assigned(log_beta, gamma[d])
        terms[own] = documents.counts[own] * (phi * (log_theta[d] + log_beta) - xlogy(phi, phi)).sum(axis=1)
    return np.asarray(p_theta - q_theta + np.bincount(owners, terms, n), dtype=np.float64)


def topics_divergence(topics: Topics, concentration: float, vocabulary: int) -> float:
    """The sum over topics of KL(q(beta_k) | Dirichlet(concentration)) over `vocabulary` words.

    `topics` must have the rows of all words with statistics; the others' lambda is the prior's and adds nothing to

        log Gamma(total) - log Gamma(V c) + sum over w of log Gamma(c) - log Gamma(lambda) + (lambda - c) E[log beta].
    """
    rows, totals, _ = topics
    normaliser = gammaln(totals) - gammaln(concentration * vocabulary)
    words = gammaln(concentration) - gammaln(rows) + (rows - concentration) * topics.expected_logs()
    return float(normaliser.sum() + words.sum())
