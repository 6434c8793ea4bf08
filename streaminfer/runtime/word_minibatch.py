"""A minibatch of documents: what its words add to each shard's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streaminfer.models.bagged import Bagged
from streaminfer.models.lda import INCREMENT_BYTES, Lda, word_bytes
from streaminfer.runtime import names
from streaminfer.spec import Spec
from streaminfer.variational import word_learning
from streaminfer.variational.lda.start import Starts
from streaminfer.variational.word_learning import ShardOf
from streaminfer.variational.words import Block


def fits(model: Lda, batch: Bagged) -> bool:
    """Whether one increment can hold all words of a minibatch."""
    fixed = len(batch.labels) * word_bytes(model.topics, 0)
    return 4 + fixed + sum(map(len, batch.labels)) <= INCREMENT_BYTES


def by_shard(
    spec: Spec, model: Lda, batch: Bagged, blocks: Sequence[Block], starts: Starts, again: bool = False
) -> list[dict[str, Any]]:
    """What the increment of every shard says: the documents of all its words, and of them those of the shard.

    `again` where an earlier pass has met them. The score is of the documents and not of words, so the first shard's
    alone has it.
    """
    shards = shards_of(spec, batch.labels, blocks)
    step = word_learning.learn(model, spec.inference, blocks, batch, shards, starts, again)
    made = []
    for i, block in enumerate(blocks):
        statistics, keys = word_learning.by_word(batch, step.statistics, np.flatnonzero(shards == i))
        made.append(
            {
                "n_events": batch.documents.n,
                "base_version": block.snapshot.version,
                "score": step.score if i == 0 else 0.0,
                "n_unconverged": step.n_unconverged,
                "statistics": statistics,
                "keys": keys,
            }
        )
    return made


def shards_of(spec: Spec, labels: Sequence[bytes], blocks: Sequence[Block]) -> ShardOf:
    """Which shard each word is of; one that is known is of the shard that has it, which is found sooner than a hash."""
    found = np.zeros(len(labels), dtype=np.intp)
    if spec.shards > 1:
        for j, label in enumerate(labels):
            at = next((i for i, block in enumerate(blocks) if label in block.arena.rows), None)
            found[j] = names.shard_of(spec, label) if at is None else at
    return found
