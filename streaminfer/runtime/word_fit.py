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
from streaminfer.variational import epochs, word_fold, word_learning, words
from streaminfer.variational.arena import Arena
from streaminfer.variational.increment import Increment
from streaminfer.variational.lda.start import Starts
from streaminfer.variational.snapshot import Snapshot
from streaminfer.variational.topics_posterior import posterior_of
from streaminfer.variational.word_batches import Batches
from streaminfer.variational.words import Block


def fit_words(spec: Spec, model: Lda, rows: Iterable[Mapping[str, Any]]) -> PosteriorSnapshot:
    """The posterior of topics given rows, as `fit` has it."""
    n_epochs = spec.inference.n_epochs
    rows = list(rows) if n_epochs > 1 else rows
    first = epochs.met(words.start(model, spec.fingerprint), {0: 0}, kept=True)
    blocks = [Block(Arena(words.row_size(model, spec.inference)), first, batches_of(spec)) for _ in range(spec.shards)]
    starts = word_learning.starts_of(model)
    for _ in range(n_epochs):
        blocks = _passed(spec, model, blocks, rows, starts)
        blocks = [block._replace(snapshot=_turned(spec, model, block)) for block in blocks]
    snapshot = whole(spec, [block.snapshot for block in blocks])
    snapshot = replace(snapshot, frontier={}, starts={}, ends={})
    return PosteriorSnapshot(spec, snapshot, topics=posterior_of(model, spec.inference, blocks))


def batches_of(spec: Spec) -> Batches | None:
    """The batches of a shard without any, where the method has batches."""
    return Batches() if spec.inference.method == "memoized" else None


def _passed(
    spec: Spec, model: Lda, blocks: list[Block], rows: Iterable[Mapping[str, Any]], starts: Starts
) -> list[Block]:
    """All shards after one pass over all rows."""
    source = iter(rows)
    while batch := list(islice(source, spec.inference.minibatch)):
        at, again = blocks[0].snapshot.frontier[0], blocks[0].snapshot.epoch > 0
        learned = word_minibatch.by_shard(spec, model, documents(spec, batch, at), blocks, starts, again)
        blocks = [
            block._replace(snapshot=_folded(spec, model, i, block, at, at + len(batch), what))
            for i, (block, what) in enumerate(zip(blocks, learned, strict=True))
        ]
    return blocks


def _turned(spec: Spec, model: Lda, block: Block) -> Snapshot:
    """The snapshot of a shard at the start of the next pass, where there is one."""
    before = block.snapshot
    snapshot = epochs.turned(epochs.fixed(before, before.ends), spec.inference.n_epochs)
    return word_fold.mended(model, block._replace(snapshot=snapshot)) if snapshot.epoch != before.epoch else snapshot


def _folded(
    spec: Spec, model: Lda, shard: int, block: Block, begin: int, end: int, what: Mapping[str, Any]
) -> Snapshot:
    increment = Increment(
        fingerprint=spec.fingerprint, writer="fit", topic="", partition=0, begin=begin, end=end, n_dead_lettered=0,
        n_lost=0, epoch=block.snapshot.epoch, **what,
    )  # fmt: skip
    watch = spec.drift if shard == 0 else None
    snapshot, _ = word_fold.add(model, spec.inference, block, increment, None, watch)
    return replace(snapshot, version=snapshot.version + 1)
