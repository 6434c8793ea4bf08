"""Topics of words that draws give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.lda.bagged import Bagged
from streaminfer.models.model import Matrix, Moments, Vector
from streaminfer.models.targets import averages
from streaminfer.models.targets.target import Parameters
from streaminfer.sampling import flat
from streaminfer.sampling.pooled.posterior import DrawsPosterior
from streaminfer.variational.lda.completion import score
from streaminfer.variational.lda.posterior import AnyTopics
from streaminfer.variational.lda.topics import Topics

MOST_FITTED: Final = 32
"""Draws that a document is fitted to, as each takes as long as the topics of another method."""


@dataclass(frozen=True)
class SampledTopics(AnyTopics):
    """With draws of topics (K, V)."""

    draws: DrawsPosterior

    family = DrawsPosterior.family

    @cached_property
    def mean(self) -> Matrix:
        """Of all draws, not only of those that are retained."""
        return np.asarray(self.moments()["topics"].mean, dtype=np.float64)

    def moments(self) -> dict[str, Moments]:
        return self.draws.moments()

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        return self.draws.sample(rng, n)

    def chains(self) -> Parameters:
        """See `DrawsPosterior.chains`."""
        return self.draws.chains()

    def log_predictive(self, batch: Bagged) -> Vector:
        """The log of the mean over some of the retained draws, or by the mean topics if none is retained."""
        at = self._places(batch.labels)
        if not len(at):
            return np.zeros(batch.documents.n)
        found = [
            score(_known(topics, at), batch.documents, self.model.alpha, self.model.seed).log_predictive
            for topics in self._some()
        ]
        return averages.log_mean_exp(np.array(found))

    def fitted(self) -> tuple[Matrix, Vector]:
        return self.mean, np.ones(len(self.mean))

    def _some(self) -> Iterator[Matrix]:
        """Retained draws (K, V), evenly spread over all chains."""
        retained, shapes = self.draws.retained, self.draws.target.shapes
        m = min(len(retained), MOST_FITTED)
        if not m:
            yield self.mean
        for i in (2 * np.arange(m) + 1) * len(retained) // (2 * max(m, 1)):
            yield flat.unflatten(retained[i], shapes)["topics"]


def _known(topics: Matrix, at: NDArray[np.intp]) -> Topics:
    """Topics (K, V) as a local step wants them of some words: a draw has no uncertainty, so its mean is itself."""
    return Topics(np.ascontiguousarray(topics[:, at].T), np.ones(len(topics)), by_mean=True)
