"""A posterior from rows at hand, by the same pure code and without a bus: for notebooks and back-fills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from streaminfer.runtime.view import PosteriorSnapshot, matrix
from streaminfer.spec import Spec
from streaminfer.variational import fold, svb
from streaminfer.variational.increment import Increment


def fit(spec: Spec, rows: Iterable[Mapping[str, Any]]) -> PosteriorSnapshot:
    """The posterior of a spec given rows (mappings, as events on the data topic are), in minibatches as a worker would.

    Raises RowError at the first row that the model cannot read.
    """
    model = spec.model
    snapshot = replace(fold.start(model, spec.fingerprint), frontier={0: 0})
    source = iter(rows)
    while batch := list(islice(source, spec.inference.minibatch)):
        at = snapshot.frontier[0]
        step = svb.step(model, model.posterior(snapshot.statistics), matrix(spec, batch, at))
        increment = Increment(
            fingerprint=spec.fingerprint, writer="fit", topic="", partition=0, begin=at, end=at + len(batch),
            n_events=len(batch), n_dead_lettered=0, n_lost=0, base_version=snapshot.version, score=step.score,
            statistics=step.statistics,
        )  # fmt: skip
        snapshot, _ = fold.add(model, snapshot, increment, snapshot.version)
        snapshot = replace(snapshot, version=snapshot.version + 1)
    return PosteriorSnapshot(spec, replace(snapshot, frontier={}))
