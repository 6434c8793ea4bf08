"""A posterior from rows at hand, by the same pure code and without a bus: for notebooks and back-fills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from streaminfer.runtime.frames import rows_of
from streaminfer.runtime.keyed_fit import KeyedPosteriors, fit_keys
from streaminfer.runtime.view import PosteriorSnapshot, matrix
from streaminfer.runtime.word_fit import fit_words
from streaminfer.spec import Spec, load_spec, parse_spec
from streaminfer.variational import base, epochs, fold, memoized, methods
from streaminfer.variational.increment import Increment
from streaminfer.variational.reached import Reached, believe
from streaminfer.variational.reaction import rule_of
from streaminfer.variational.snapshot import Snapshot


def fit(
    spec: Spec | str | PathLike[str] | Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> PosteriorSnapshot | KeyedPosteriors:
    """The posterior of a spec given rows (mappings, as events on the data topic are), in minibatches as a worker would.

    The spec may also be the path of its file, or a mapping as `parse_spec` takes it. A table of pandas is its rows.
    They are events of one partition, in their order; with `inference.epochs` they are kept in memory and passed as
    often. Of a spec with `key` there is a posterior for each key, by the key. Raises RowError at the first row that the
    model cannot read.
    """
    spec = _spec_of(spec)
    rows = rows_of(spec.event_fields, rows)
    if spec.words is not None:
        return fit_words(spec, spec.words, rows)
    if spec.inference.by_time and spec.time_field is None:
        raise ValueError(
            f"inference.forget: {', '.join(spec.inference.forget or ())} needs the rows' times, and rows have no "
            "record's timestamp: say in data.timestamp which field has them"
        )
    if spec.key is not None:
        return fit_keys(spec, rows)
    n_epochs = spec.inference.n_epochs
    rows = list(rows) if n_epochs > 1 else rows
    snapshot = epochs.met(fold.start(spec.model, spec.fingerprint), {0: 0}, kept=True)
    for _ in range(n_epochs):
        snapshot = _passed(spec, snapshot, rows)
        snapshot = epochs.turned(epochs.fixed(snapshot, snapshot.ends), n_epochs)
    return PosteriorSnapshot(spec, replace(snapshot, frontier={}, starts={}, ends={}, batches={}))


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


def _passed(spec: Spec, snapshot: Snapshot, rows: Iterable[Mapping[str, Any]]) -> Snapshot:
    """A snapshot after one pass over all rows."""
    model, forget = spec.model, rule_of(spec)
    source, reached = iter(rows), Reached()
    while batch := list(islice(source, spec.inference.minibatch)):
        at = snapshot.frontier[0]
        events = matrix(spec.event_fields, batch, at)
        places = np.arange(at, at + len(batch), dtype=np.float64)
        if spec.time_field is not None:
            believed = believe(events[:, -1], reached)
            events, places, reached = events[:, :-1], believed.times, believed.state
        weights = None if forget is None else forget.weights(len(batch), places)
        newest, own = base.of(model, spec.inference, snapshot), memoized.held(snapshot, 0, at)
        step = methods.learn(model, spec.inference, newest, events, weights, own)
        increment = Increment(
            fingerprint=spec.fingerprint, writer="fit", topic="", partition=0, begin=at, end=at + len(batch),
            n_events=len(batch), n_dead_lettered=0, n_lost=0, base_version=snapshot.version, score=step.score,
            statistics=step.statistics, epoch=snapshot.epoch, n_unconverged=step.n_unconverged,
        )  # fmt: skip
        if forget is not None:
            increment = forget.dated(model, increment, events, places)
        version = snapshot.version
        snapshot, _ = fold.add(model, snapshot, increment, version, forget, spec.drift, spec.inference)
        snapshot = replace(snapshot, version=snapshot.version + 1)
    return snapshot
