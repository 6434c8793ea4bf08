"""Topics from rows at hand: the fold of a worker and the masters of all shards, without a bus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from streaminfer.models.lda import Lda
from streaminfer.runtime import word_minibatch
from streaminfer.runtime.manifests import whole
from streaminfer.runtime.view import PosteriorSnapshot, documents
from streaminfer.spec import Spec
from streaminfer.variational import words
from streaminfer.variational.arena import Arena
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.topics_posterior import posterior_of
from streaminfer.variational.words import Block


def fit_words(spec: Spec, model: Lda, rows: Iterable[Mapping[str, Any]]) -> PosteriorSnapshot:
    """The posterior of topics given rows, as `fit` has it."""
    first = replace(words.start(model, spec.fingerprint), frontier={0: 0})
    blocks = [Block(Arena(model.size), first) for _ in range(spec.shards)]
    source = iter(rows)
    while batch := list(islice(source, spec.inference.minibatch)):
        at = blocks[0].snapshot.frontier[0]
        learned = word_minibatch.by_shard(spec, model, documents(spec, batch, at), blocks)
        blocks = [
            block._replace(snapshot=_folded(spec, model, i, block, at, at + len(batch), what))
            for i, (block, what) in enumerate(zip(blocks, learned, strict=True))
        ]
    snapshot = replace(whole(spec, [block.snapshot for block in blocks]), frontier={})
    return PosteriorSnapshot(spec, snapshot, topics=posterior_of(model, spec.inference, blocks))


def _folded(
    spec: Spec, model: Lda, shard: int, block: Block, begin: int, end: int, what: Mapping[str, Any]
) -> Snapshot:
    increment = Increment(
        fingerprint=spec.fingerprint, writer="fit", topic="", partition=0, begin=begin, end=end, n_dead_lettered=0,
        n_lost=0, **what,
    )  # fmt: skip
    watch = spec.drift if shard == 0 else None
    snapshot, _ = words.add(model, spec.inference, block, increment, None, watch)
    return replace(snapshot, version=snapshot.version + 1)
