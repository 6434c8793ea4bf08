"""What is known of the topics, as far as the words at hand need it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streaminfer.families.special import psi
from streaminfer.models.model import Matrix, Vector


class Topics(NamedTuple):
    """Dirichlet parameters lambda, a row for each word: the prior's concentration and the statistics, all above 0."""

    rows: Matrix
    """(m, K), of the m words at hand."""
    totals: Vector
    """(K,), the sum of lambda over all V words, at hand or not."""
    by_mean: bool = False
    """Whether documents are fitted to E[beta], not to exp(E[log beta]).

    exp(psi(0.01)) is about e^-100: a word that a poor early minibatch gave to one topic could never enter another."""

    def plus(self, statistics: Matrix) -> Topics:
        """With the statistics (m, K) of some documents added."""
        return self._replace(rows=self.rows + statistics, totals=self.totals + statistics.sum(axis=0))

    def means(self) -> Matrix:
        """E[beta], (m, K)."""
        return self.rows / self.totals

    def expected_logs(self) -> Matrix:
        """E[log beta] = psi(lambda) - psi(total), (m, K)."""
        return psi(self.rows) - psi(self.totals)

    def logs(self) -> Matrix:
        """What documents are fitted to, (m, K): log E[beta], or E[log beta]."""
        return np.log(self.rows) - np.log(self.totals) if self.by_mean else self.expected_logs()


def prior(m: int, concentration: float, k: int, vocabulary: int) -> Topics:
    """What is known of m of `vocabulary` words before any document."""
    return Topics(np.full((m, k), concentration), np.full(k, concentration * vocabulary))
