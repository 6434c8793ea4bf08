"""What a worker learns from documents: the topics as it knows them, and the statistics of the minibatch's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.lda.bagged import Bagged
from streaminfer.models.lda.documents import Documents
from streaminfer.models.lda.model import Lda
from streaminfer.models.model import Matrix
from streaminfer.variational.arena import NONE
from streaminfer.variational.increment import ByKey
from streaminfer.variational.lda.absorb import ITERATIONS, absorb
from streaminfer.variational.lda.completion import score
from streaminfer.variational.lda.local import MOST, local
from streaminfer.variational.lda.start import Starts
from streaminfer.variational.lda.topics import Topics
from streaminfer.variational.lda.words import ShardRows, head_of, held
from streaminfer.variational.methods import method_of
from streaminfer.variational.methods.svb import LOWEST, Step
from streaminfer.variational.settings import Inference

NEGLIGIBLE: Final = 1e-6
"""What is left of a start below this is not looked at any more."""
ShardOf = NDArray[np.intp]
"""Which shard each word is of, (m,)."""


def topics_of(
    model: Lda, inference: Inference, blocks: Sequence[ShardRows], labels: Sequence[bytes], shards: ShardOf
) -> Topics:
    """The rows of some words, (m, K), and the totals of all: sums come with the blocks, whatever rows are known.

    A growing vocabulary has the words that are known and those that are asked for.
    """
    rows = np.zeros((len(labels), model.topics))
    totals, n_words = np.zeros(model.topics), 0
    for i, block in enumerate(blocks):
        of = np.flatnonzero(shards == i)
        head = head_of(model, block.snapshot.payload.statistics)
        places = block.arena.firsts([labels[j] for j in of.tolist()])
        times = method_of(inference).times(inference, block.snapshot, False)
        rows[of] = times * held(model, block.arena, places, head.log_weight)
        totals += times * head.sums
        n_words += len(block.arena) + int(np.count_nonzero(places == NONE))
    size = n_words if model.vocabulary is None else len(model.vocabulary)
    return Topics(model.concentration + rows, model.concentration * size + totals, model.by_mean)


def learn(
    model: Lda,
    inference: Inference,
    blocks: Sequence[ShardRows],
    batch: Bagged,
    shards: ShardOf,
    starts: Starts,
    again: bool = False,
) -> Step:
    """The statistics (m, K) of a minibatch's words, and how well the topics predicted its documents.

    Documents that are met `again` have no score.
    """
    if not batch.labels:
        return Step(np.zeros((0, model.topics)), 0.0)
    topics = topics_of(model, inference, blocks, batch.labels, shards)
    found = change(model, inference, blocks, batch, shards, starts, topics, again)
    return found if again else found._replace(score=scored(model, topics, batch))


def change(
    model: Lda,
    inference: Inference,
    blocks: Sequence[ShardRows],
    batch: Bagged,
    shards: ShardOf,
    starts: Starts,
    topics: Topics,
    again: bool = False,
) -> Step:
    """What a minibatch with words adds to the topics as they are known, without a score.

    While no word is in the topics all of them are alike, and a start that all workers share tells them apart. By svi
    the start fades as all that is held does. By memoized, documents that are met `again` are in the topics already. The
    first time their words are learned as by svb, as many of them are new.
    """
    if inference.step is not None:
        return _once(model, started(inference, blocks, batch.labels, shards, topics, starts), batch)
    if again:
        return _once(model, topics, batch)
    new = not any(head_of(model, block.snapshot.payload.statistics).sums.any() for block in blocks)
    first = starts.of(batch.labels) if new else None
    most = inference.local_iterations or ITERATIONS
    found = absorb(topics, batch.documents, model.alpha, first=first, iterations=most)
    return Step(found.statistics, 0.0, 0 if found.converged else batch.documents.n)


def _once(model: Lda, topics: Topics, batch: Bagged) -> Step:
    """What documents add that are fitted to topics as these are; those that used up their turns have not converged."""
    found = local(topics, batch.documents, model.alpha)
    return Step(found.statistics, 0.0, int(np.count_nonzero(found.iterations >= MOST)))


def started(
    inference: Inference,
    blocks: Sequence[ShardRows],
    labels: Sequence[bytes],
    shards: ShardOf,
    topics: Topics,
    starts: Starts,
) -> Topics:
    """The topics with what is left of the start, with which the steps of svi begin: (1 - rho_1) (1 - rho_2) ... of it.

    For all other words the start is 1 in the mean, and that is what counts in the totals.
    """
    step = inference.step
    left = np.array([1.0 if step is None else step.left(block.snapshot.payload.n_steps) for block in blocks])
    if not left.max() > NEGLIGIBLE:
        return topics
    new = np.bincount(shards, minlength=len(blocks))  # some are known; those that are not are counted only here
    sizes = np.maximum([len(block.arena) for block in blocks], new)
    rows = left[shards][:, None] * starts.of(labels)
    return topics._replace(rows=topics.rows + rows, totals=topics.totals + float(left @ sizes))


def starts_of(model: Lda) -> Starts:
    """The starts of a model's topics."""
    return Starts(model.topics, model.seed)


def prepare(model: Lda) -> None:
    """Has a loop that is compiled when it is first used compiled now: that takes longer than a step may."""
    one = Documents(np.array([0, 1]), np.array([0]), np.ones(1))
    local(Topics(np.ones((1, model.topics)), np.ones(model.topics)), one, model.alpha)


def scored(model: Lda, topics: Topics, batch: Bagged) -> float:
    """The log predictive density of the second halves of documents given the first."""
    densities = score(topics, batch.documents, model.alpha, model.seed).log_predictive
    return float(np.sum(np.clip(np.nan_to_num(densities, nan=LOWEST), LOWEST, -LOWEST)))


def by_word(batch: Bagged, statistics: Matrix, rows: NDArray[np.intp]) -> tuple[Matrix, ByKey]:
    """Some of the words of a minibatch as an increment has them: their counts, and no timestamps."""
    documents = batch.documents
    counts = np.bincount(documents.words, documents.counts, len(batch.labels)).astype(np.float64)
    nothing = [np.zeros(len(rows)) for _ in range(4)]
    return statistics[rows], ByKey([batch.labels[row] for row in rows.tolist()], counts[rows], *nothing)
