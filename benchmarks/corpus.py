"""Documents for topic models, the same ones every time, and how topics are scored.

They are drawn from the model itself, or chapters that people wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.lda.documents import Documents
from streaminfer.models.model import Matrix
from streaminfer.variational.lda import completion, local
from streaminfer.variational.lda.topics import Topics
from tests.variational.lda.corpora import chapters

ALPHA: Final = 0.1
CONCENTRATION: Final = 0.01
"""The priors that everybody gets: those of a spec that says nothing."""
TAU: Final = 64.0
KAPPA: Final = 0.7
"""Step t has the size (tau + t)^-kappa, t = 1, 2, ..."""
TOLERANCE: Final = local.BY_MEAN
TURNS: Final = local.MOST
"""A document's loop ends at a mean change below the one, or after the other."""
LENGTH: Final = 100
"""Words of a document, on average."""
SPARSE: Final = 0.05
"""Of the Dirichlet that topics are drawn from: a topic has few of the words."""
CERTAIN: Final = 1e9
"""Words that the true topics are worth, so that their scores are those of known topics."""


@dataclass(frozen=True)
class Corpus:
    """`documents` to learn from and `held_out` others, of `topics` topics over `words` words.

    Everybody gets the `concentration` of topics and the `tau` of steps.
    """

    documents: int
    topics: int = 50
    words: int = 5_000
    held_out: int = 1_000
    minibatch: int = 256
    concentration: float = CONCENTRATION
    tau: float = TAU
    real: bool = False

    @property
    def topic(self) -> str:
        return f"bench-documents-{self.topics}-{self.words}-{self.documents}"


CHAPTERS: Final = Corpus(989, 20, 4_501, held_out=200, minibatch=64, concentration=0.05, tau=16.0, real=True)
"""Of the World English Bible (tests/data/chapters.md). A pass is 16 steps; with tau = 64 they would be too small."""


class Given(NamedTuple):
    """Documents of both kinds."""

    learned: Documents
    held_out: Documents


class Drawn(NamedTuple):
    """Documents of both kinds, and the topics (K, V) that they were drawn from."""

    learned: Documents
    held_out: Documents
    truth: Matrix

    def true_topics(self) -> Topics:
        rows = np.maximum(CERTAIN * self.truth.T, CONCENTRATION)
        return Topics(rows, rows.sum(axis=0))


def given(corpus: Corpus) -> Given:
    """The documents of either kind of corpus."""
    if not corpus.real:
        return Given(*drawn(corpus)[:2])
    _, documents = chapters()
    return Given(
        documents.select(np.arange(corpus.held_out, corpus.held_out + corpus.documents)),
        documents.select(np.arange(corpus.held_out)),
    )


def drawn(corpus: Corpus) -> Drawn:
    """Every word of a document is of a topic of its own draw; all words of a topic are drawn at once."""
    rng = np.random.default_rng(20100)
    n, k, v = corpus.documents + corpus.held_out, corpus.topics, corpus.words
    truth = rng.dirichlet(np.full(v, SPARSE), k)
    shares = rng.dirichlet(np.full(k, ALPHA), n)
    counts = rng.multinomial(rng.poisson(LENGTH, n), shares)
    places = []
    for topic in range(k):
        owners = np.repeat(np.arange(n), counts[:, topic])
        places.append(owners * v + rng.choice(v, len(owners), p=truth[topic]))
    entries, times = np.unique(np.concatenate(places), return_counts=True)
    starts = np.searchsorted(entries, np.arange(n + 1) * v).astype(np.intp)
    whole = Documents(starts, (entries % v).astype(np.intp), times.astype(np.float64))
    learned, rest = np.arange(corpus.documents), np.arange(corpus.documents, n)
    return Drawn(whole.select(learned), whole.select(rest), truth)


def score(topics: Topics, documents: Documents) -> float:
    """Nats for each word of the second halves, given the first: of everybody's topics by their mean probabilities."""
    return completion.score(topics._replace(by_mean=True), documents, ALPHA, seed=1).mean()


def unigram(of: Drawn | Given, words: int) -> float:
    """The score of one topic: the words' frequencies."""
    counts = np.asarray(np.bincount(of.learned.words, of.learned.counts, words) + CONCENTRATION, dtype=np.float64)
    return score(Topics(counts[:, None], counts.sum(keepdims=True)), of.held_out)


def labels(corpus: Corpus) -> list[bytes]:
    """The words, in the order of their bytes as of their numbers."""
    return [b"w%06d" % word for word in range(corpus.words)]
