"""Small corpora and plain in-memory drivers of LDA for tests: batch, streaming, stochastic, memoized."""

from __future__ import annotations

import gzip
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streaminfer import fit, parse_spec
from streaminfer.models.lda.documents import Documents
from streaminfer.models.model import Matrix
from streaminfer.spec import Spec
from streaminfer.variational.base import too_old
from streaminfer.variational.lda import bound, completion
from streaminfer.variational.lda.absorb import absorb
from streaminfer.variational.lda.local import local
from streaminfer.variational.lda.start import start
from streaminfer.variational.lda.topics import Topics, prior

CHAPTERS = Path(__file__).parents[2] / "data" / "chapters.txt.gz"


class Setting(NamedTuple):
    """K topics over the words, both concentrations, and whether documents are fitted to mean probabilities."""

    words: tuple[bytes, ...]
    k: int
    alpha: float = 0.1
    concentration: float = 0.1
    by_mean: bool = False

    @property
    def prior(self) -> Topics:
        return prior(len(self.words), self.concentration, self.k, len(self.words))._replace(by_mean=self.by_mean)

    def spec(self, inference: dict[str, Any], seed: int, **model: Any) -> Spec:
        """The same as a spec, of documents in the field `words`; `model` may say `local`."""
        named = {"vocabulary": [word.decode() for word in self.words], "topics": self.k, "seed": seed}
        given = {"prior": {"document": self.alpha, "topic": self.concentration}, **named, **model}
        return parse_spec({"name": "x", "model": {"kind": "lda", "field": "words", **given}, "inference": inference})

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
    """Minibatches in their order, each from what was known `stale` minibatches before, or now if that is too old."""
    model, first, known, seen = setting.spec({}, seed).model, setting.start(seed), [setting.prior], [0]
    for i, batch in enumerate(batches):
        words, compact = batch.compact()
        late = max(0, i - stale)
        base = known[i if too_old(model, seen[i], seen[late]) else late]
        rows = base._replace(rows=base.rows[words])
        change = absorb(rows, compact, setting.alpha, None, first[words] if i == 0 else None, iterations)
        statistics = np.zeros_like(first)
        statistics[words] = change.statistics
        known.append(known[-1].plus(statistics))
        seen.append(seen[-1] + batch.n)
    return known[-1]


def learned(setting: Setting, documents: Documents, inference: dict[str, Any], seed: int, local: str | None) -> Topics:
    """What `fit` learns, of a spec that names `local` or leaves it out."""
    spec = setting.spec(inference, seed, **({} if local is None else {"local": local}))
    fitted: Any = fit(spec, rows_of(setting, documents))
    found = fitted.posterior
    order = np.searchsorted(np.array(found.words), np.array(setting.words))
    return Topics(found.natural.T[order], found.natural.sum(axis=1), found.model.by_mean)


def rows_of(setting: Setting, documents: Documents) -> list[dict[str, dict[str, int]]]:
    """Documents as events."""
    names = [setting.words[word].decode() for word in documents.words.tolist()]
    entries = list(zip(names, documents.counts.astype(int).tolist(), strict=True))
    return [{"words": dict(entries[begin:end])} for begin, end in pairwise(documents.starts.tolist())]


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
    counts = np.bincount(train.words, train.counts, v).astype(np.float64) + 0.5
    topics = Topics(counts[:, None], counts.sum(keepdims=True))
    return completion.score(topics, documents, 1.0, seed=1).mean()
