"""The posterior of K topics, which are probabilities of V words: what is asked of each, and one of Dirichlets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.lda.bagged import Bagged
from streaminfer.models.lda.documents import Numbers
from streaminfer.models.lda.model import Lda
from streaminfer.models.model import Matrix, Moments, Predictions, Vector
from streaminfer.variational.lda.completion import score
from streaminfer.variational.lda.local import local
from streaminfer.variational.lda.topics import Topics
from streaminfer.variational.lda.words import ShardRows, published
from streaminfer.variational.methods import method_of
from streaminfer.variational.settings import Inference


@dataclass(frozen=True)
class AnyTopics(ABC):
    """What is known of the topics of some words, which are in the order of their bytes."""

    model: Lda
    words: Sequence[bytes]
    natural: Matrix
    """Natural parameters (K, V), or (0, 0) if there are none."""

    family: ClassVar[str]

    @property
    def vocabulary(self) -> list[str]:
        return [word.decode() for word in self.words]

    @property
    @abstractmethod
    def mean(self) -> Matrix:
        """The mean probabilities of words in each topic, (K, V)."""

    @abstractmethod
    def moments(self) -> dict[str, Moments]:
        """Moments of `topics` (K, V)."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        """n draws of `topics` (n, K, V)."""

    @abstractmethod
    def log_predictive(self, batch: Bagged) -> Vector:
        """log p(second half | first half) of each document, whose words fall to the halves by coins of the seed."""

    @abstractmethod
    def fitted(self) -> tuple[Matrix, Vector]:
        """Dirichlet parameters (K, V) that documents are fitted to, and their sums (K,); or means, and ones."""

    def top(self, n: int) -> list[list[tuple[str, float]]]:
        """The n likeliest words of each topic with their probabilities, the likeliest first, of equals in order."""
        found = []
        for row in self.mean:
            order = np.argsort(-row, kind="stable")[:n]
            found.append([(self.words[i].decode(), float(row[i])) for i in order.tolist()])
        return found

    def predict(self, batch: Bagged) -> Predictions:
        """The expected topics of each document, (n, K), gamma / sum gamma, by the local step of learning.

        Words that the posterior does not have say nothing and are passed over; `words` (n,) are those that are left.
        """
        at, documents, (numbers, totals) = self._places(batch.labels), batch.documents, self.fitted()
        known = documents.with_counts(np.where((at >= 0)[documents.words], documents.counts, 0.0))
        if not len(known.words):
            return {"topics": np.full((known.n, len(numbers)), 1 / len(numbers)), "words": known.lengths}
        rows = np.ascontiguousarray(numbers[:, at].T)  # any row for a word that is not known
        gamma = local(Topics(rows, totals, self.model.by_mean), known, self.model.alpha).gamma
        return {"topics": gamma / gamma.sum(axis=1, keepdims=True), "words": known.lengths}

    def _places(self, labels: Sequence[bytes]) -> Numbers:
        """Which of `words` these are; -1 for one that is not among them."""
        places = {word: i for i, word in enumerate(self.words)}
        return np.array([places.get(label, -1) for label in labels], dtype=np.intp)

    def log_evidence(self) -> float:
        """Neither statistics nor draws tell it."""
        return float("nan")


@dataclass(frozen=True)
class TopicsPosterior(AnyTopics):
    """`natural` are the parameters of the Dirichlets (see `WordModel.natural_of`)."""

    family = "dirichlet"

    @property
    def mean(self) -> Matrix:
        totals = self.natural.sum(axis=1, keepdims=True)
        return self.natural / np.where(totals > 0, totals, 1.0)

    def moments(self) -> dict[str, Moments]:
        totals, mean = self.natural.sum(axis=1, keepdims=True), self.mean
        return {"topics": Moments(mean, np.sqrt(mean * (1 - mean) / (totals + 1)))}

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        return {"topics": np.stack([rng.dirichlet(row, n) for row in self.natural], axis=1)}

    def log_predictive(self, batch: Bagged) -> Vector:
        at = self._places(batch.labels)
        known, new = at >= 0, int(np.count_nonzero(at < 0))
        rows = np.full((len(at), self.model.topics), self.model.concentration)
        rows[known] = self.natural[:, at[known]].T
        totals = self.natural.sum(axis=1) + self.model.concentration * new
        if not batch.labels:
            return np.zeros(batch.documents.n)
        topics = Topics(rows, totals, self.model.by_mean)
        return score(topics, batch.documents, self.model.alpha, self.model.seed).log_predictive

    def fitted(self) -> tuple[Matrix, Vector]:
        return self.natural, self.natural.sum(axis=1)


def posterior_of(model: Lda, inference: Inference, blocks: Sequence[ShardRows]) -> TopicsPosterior:
    """The posterior that all shards together give; a fixed vocabulary also has the words that no document used."""
    known = {word for block in blocks for word in block.arena.rows} if model.known is None else model.known
    words = sorted(known)
    places = {word: i for i, word in enumerate(words)}
    natural = np.repeat(model.natural_of(model.empty()[None]), len(words), axis=1)
    for block in blocks:
        labels = list(block.arena.rows)
        rows = published(model, inference, block, labels)
        times = method_of(inference).times(inference, block.snapshot, True)
        natural[:, [places[label] for label in labels]] = model.natural_of(times * rows)
    return TopicsPosterior(model, words, natural)
