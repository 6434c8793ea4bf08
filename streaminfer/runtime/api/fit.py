"""A posterior from rows at hand, by the same tables and without a bus: for notebooks and back-fills."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np

from streaminfer.runtime import names
from streaminfer.runtime.api import sampled_fit
from streaminfer.runtime.api.frames import rows_of
from streaminfer.runtime.api.keyed_posteriors import Fitted, KeyedPosteriors
from streaminfer.runtime.api.snapshot import PosteriorSnapshot, events_of
from streaminfer.runtime.following.manifests import whole
from streaminfer.spec import Spec, load_spec, parse_spec
from streaminfer.tables import table_of
from streaminfer.tables.demanded import lda_of
from streaminfer.tables.kinds import KEYED, SINGLE, WORDS, folding_of, kind_of
from streaminfer.tables.learning import Learning, Lesson, Taken
from streaminfer.variational import epochs
from streaminfer.variational.forgetting import rules
from streaminfer.variational.forgetting.reached import Reached, believe
from streaminfer.variational.increment import Increment, Provenance
from streaminfer.variational.lda.posterior import posterior_of
from streaminfer.variational.lda.words import ShardRows
from streaminfer.variational.methods import memoized
from streaminfer.variational.snapshot import Snapshot

Rows = Iterable[Mapping[str, Any]]


def fit(spec: Spec | str | PathLike[str] | Mapping[str, Any], rows: Rows) -> PosteriorSnapshot | KeyedPosteriors:
    """The posterior of a spec given rows (mappings, as events on the data topic are), in minibatches as a worker would.

    The spec may also be the path of its file, or a mapping as `parse_spec` takes it. A table of pandas is its rows.
    They are events of one partition, in their order; with `inference.epochs` they are kept in memory and passed as
    often. A spec with `key` gives a posterior for each key, by the key. Raises RowError at the first row that the model
    cannot read.
    """
    spec = _spec_of(spec)
    rows = rows_of(spec.event_fields, rows)
    _check_times(spec)
    if spec.sampling is not None:
        return sampled_fit.fit(spec, spec.sampling, rows)
    n_epochs = spec.inference.n_epochs
    rows = list(rows) if n_epochs > 1 else rows
    shards = [Fitted(table_of(spec, i)) for i in range(spec.shards)]
    for shard in shards:
        shard.table.snapshot = epochs.met(shard.table.snapshot, {0: 0}, kept=True)
    learning = folding_of(spec).learning(spec, partial(names.shard_of, spec))
    for _ in range(n_epochs):
        _pass_over(spec, learning, shards, rows)
        for shard in shards:
            _rest(shard)
    for shard in shards:
        shard.table.snapshot = _detached(shard.table.snapshot)
    return _RESULTS[kind_of(spec).name](spec, shards)


def _detached(snapshot: Snapshot) -> Snapshot:
    """Without positions, as rows have none on a bus, and without batches that nothing visits again."""
    return replace(
        snapshot,
        frontier=replace(snapshot.frontier, positions={}, starts={}, ends={}),
        payload=replace(snapshot.payload, batches={}),
    )


def _spec_of(given: object) -> Spec:
    if isinstance(given, Spec):
        return given
    if isinstance(given, str | PathLike):
        return load_spec(Path(given))
    if isinstance(given, Mapping):
        return parse_spec(given)
    raise TypeError(
        f"spec: must be a Spec, the path of a spec file, or a mapping with name and model (got {type(given).__name__})"
    )


def _check_times(spec: Spec) -> None:
    """Rows have no record with a timestamp."""
    if spec.inference.by_time and spec.time_field is None:
        raise ValueError(
            f"inference.forget: {', '.join(spec.inference.forget or ())} needs the rows' times, and rows have no "
            "record's timestamp: say in data.timestamp which field has them"
        )
    if spec.times_matter and not spec.inference.by_time:
        raise ValueError("key.expire_after: goes by the timestamps of records, and rows have none: leave it out")


def _rest(shard: Fitted) -> None:
    """What is done once all rows are in: the ends of passes are fixed, or a prior is fitted; then the next pass."""
    table = shard.table
    if table.restless:
        table.rest({})
        table.settle(table.snapshot, dict)
    table.turn()


def _pass_over(spec: Spec, learning: Learning, shards: Sequence[Fitted], rows: Rows) -> None:
    """One pass over all rows."""
    source, reached = iter(rows), Reached()
    while batch := list(islice(source, spec.inference.minibatch)):
        first = shards[0].table.snapshot
        at = first.frontier.positions[0]
        own = memoized.held(first, 0, at)
        taken, reached = _taken(spec, batch, at, reached)
        blocks = [ShardRows(shard.table.rows, shard.table.snapshot) for shard in shards]
        lessons = learning.learn(taken, blocks, first.frontier.epoch > 0, own)
        for shard, lesson in zip(shards, lessons, strict=True):
            _fold(spec, learning, shard, taken, lesson, at, at + len(batch))


def _taken(spec: Spec, batch: list[Mapping[str, Any]], at: int, reached: Reached) -> tuple[Taken, Reached]:
    """Rows as a worker takes them in."""
    events, rule = events_of(spec.event_fields, batch, at), rules.of(spec.inference.forget)
    by_position = rule is not None and rule.pane is not None
    places = np.arange(at, at + len(batch), dtype=np.float64) if by_position else None
    if spec.time_field is not None:
        events, seconds = events.parted()
        believed = believe(seconds, reached)
        places, reached = believed.times, believed.state
    return Taken(events, places, np.zeros(len(batch))), reached


def _fold(spec: Spec, learning: Learning, shard: Fitted, taken: Taken, lesson: Lesson, begin: int, end: int) -> None:
    table = shard.table
    now, version = table.snapshot, table.snapshot.version
    provenance = Provenance(spec.fingerprint, "fit", "", 0, begin, end, version, now.frontier.epoch)
    increment = Increment(provenance, lesson.counts, lesson.payload)
    table.fold(learning.dated(increment, taken), fresh_from=version, base_events=now.n_events)
    table.snapshot = replace(table.snapshot, version=version + 1)
    if lesson.payload.keys is not None:
        shard.versions.update((label, version + 1) for label in lesson.payload.keys.labels)


def _single(spec: Spec, shards: Sequence[Fitted]) -> PosteriorSnapshot:
    return PosteriorSnapshot(spec, shards[0].table.snapshot)


def _words(spec: Spec, shards: Sequence[Fitted]) -> PosteriorSnapshot:
    blocks = [ShardRows(shard.table.rows, shard.table.snapshot) for shard in shards]
    topics = posterior_of(lda_of(spec), spec.inference, blocks)
    return PosteriorSnapshot(spec, whole(spec, [block.snapshot for block in blocks]), topics=topics)


_RESULTS: Final[Mapping[str, Callable[[Spec, Sequence[Fitted]], PosteriorSnapshot | KeyedPosteriors]]] = {
    SINGLE.name: _single,
    KEYED.name: KeyedPosteriors,
    WORDS.name: _words,
}
