"""Small corpora and plain in-memory drivers of LDA for tests: batch, streaming, stochastic, memoized."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streaminfer.models.documents import Documents
from streaminfer.models.model import Matrix
from streaminfer.variational.lda import bound, completion
from streaminfer.variational.lda.absorb import absorb
from streaminfer.variational.lda.local import local
from streaminfer.variational.lda.start import start
from streaminfer.variational.lda.topics import Topics, prior

CHAPTERS = Path(__file__).parents[1] / "data" / "chapters.txt.gz"


class Setting(NamedTuple):
    """K topics over the words, and both concentrations."""

    words: tuple[bytes, ...]
    k: int
    alpha: float = 0.1
    concentration: float = 0.1

    @property
    def prior(self) -> Topics:
        return prior(len(self.words), self.concentration, self.k, len(self.words))

    def start(self, seed: int = 0) -> Matrix:
        return start(self.words, self.k, seed)

    def elbo(self, topics: Topics, documents: Documents, gamma: Matrix) -> float:
        divergence = bound.topics_divergence(topics, self.concentration, len(self.words))
        return float(bound.documents_bound(topics, documents, self.alpha, gamma).sum()) - divergence


def drawn(n: int, v: int, k: int, length: float, seed: int, spread: float = 0.05) -> Documents:
    """Documents drawn from the model itself."""
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(k, 0.2), n) @ rng.dirichlet(np.full(v, spread), k)
    counts = np.array([rng.multinomial(m, p / p.sum()) for m, p in zip(rng.poisson(length, n), words, strict=True)])
    return dense(counts)


def dense(counts: Matrix) -> Documents:
    """From a table of counts (n, V)."""
    return Documents.of([{int(w): float(row[w]) for w in np.flatnonzero(row)} for row in counts])


@cache
def chapters() -> tuple[tuple[bytes, ...], Documents]:
    """The words and the documents of `tests/data/chapters.txt.gz`, shuffled once."""
    first, *lines = gzip.decompress(CHAPTERS.read_bytes()).decode().splitlines()
    pairs = [[entry.partition(":") for entry in line.split()] for line in lines]
    documents = Documents.of([{int(word): float(count or 1) for word, _, count in line} for line in pairs])
    order = np.random.default_rng(0).permutation(documents.n)
    return tuple(word.encode() for word in first.split()), documents.select(order)


def svb(setting: Setting, batches: list[Documents], iterations: int = 20, stale: int = 0, seed: int = 0) -> Topics:
    """Minibatches in their order, each from what was known `stale` minibatches before; the first few have no choice."""
    first, known = setting.start(seed), [setting.prior]
    for i, batch in enumerate(batches):
        words, compact = batch.compact()
        base = known[max(i - stale, min(i, 1))]
        rows = Topics(base.rows[words], base.totals)
        change = absorb(rows, compact, setting.alpha, None, first[words] if i == 0 else None, iterations)
        statistics = np.zeros_like(first)
        statistics[words] = change.statistics
        known.append(known[-1].plus(statistics))
    return known[-1]


def svi(
    setting: Setting, batches: list[Documents], passes: int, tau: float = 16.0, kappa: float = 0.7, seed: int = 0
) -> Topics:
    """statistics <- (1 - rho) statistics + rho N / |B| E[T], rho = (tau + t)^-kappa."""
    n, statistics, t = sum(batch.n for batch in batches), setting.start(seed), 0
    for _ in range(passes):
        for batch in batches:
            found = local(setting.prior.plus(statistics), batch, setting.alpha).statistics
            rho = (tau + t) ** -kappa
            statistics = (1 - rho) * statistics + rho * n / batch.n * found
            t += 1
    return setting.prior.plus(statistics)


def held_out(setting: Setting, topics: Topics, documents: Documents) -> float:
    """Nats for each word of the second halves."""
    return completion.score(topics, documents, setting.alpha, seed=1).mean()


def unigram(train: Documents, documents: Documents, v: int) -> float:
    """The same score of one topic: the words' frequencies in the training documents."""
    counts = np.bincount(train.words, train.counts, v) + 0.5
    topics = Topics(counts[:, None], counts.sum(keepdims=True))
    return completion.score(topics, documents, 1.0, seed=1).mean()
