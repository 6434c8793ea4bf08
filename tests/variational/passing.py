"""Several passes over events by the pure code alone, one visit at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streaminfer.models.model import Posterior
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational import epochs, fold, methods
from streaminfer.variational.increment import Increment
from streaminfer.variational.methods import memoized
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot
from tests.made import new_increment


class Visit(NamedTuple):
    """One increment: what it was learned from, and the snapshot that it gave."""

    base: Posterior
    increment: Increment
    outcome: Outcome
    snapshot: Snapshot


def mixture(method: str, n_epochs: int, minibatch: int, components: int = 3, **inference: Any) -> Spec:
    model = {"kind": "gaussian_mixture", "fields": ["u", "v"], "components": components}
    settings = {"method": method, "epochs": n_epochs, "minibatch": minibatch, **inference}
    return parse_spec({"name": "demo", "model": model, "inference": settings})


def blobs(n: int, seed: int = 1) -> np.ndarray:
    """Three clouds that overlap."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [2.5, 1.0], [-1.0, 3.0]])
    return centres[rng.integers(3, size=n)] + rng.normal(size=(n, 2))


def increment(spec: Spec, snapshot: Snapshot, events: np.ndarray, begin: int, end: int, **fields: Any) -> Increment:
    """What a worker would send of events [begin, end) that starts from a snapshot."""
    newest, own = methods.base_of(spec.model, spec.inference, snapshot), memoized.held(snapshot, 0, begin)
    step = methods.learn(spec.model, spec.inference, newest, events[begin:end], None, own)
    known: dict[str, Any] = {
        "fingerprint": "f", "writer": "w", "topic": "t", "partition": 0, "begin": begin, "end": end,
        "n_events": end - begin, "n_dead_lettered": 0, "n_lost": 0, "base_version": snapshot.version,
        "score": step.score, "statistics": step.statistics, "epoch": snapshot.frontier.epoch,
        "n_unconverged": step.n_unconverged,
    }  # fmt: skip
    return new_increment(**{**known, **fields})


def folded(spec: Spec, snapshot: Snapshot, given: Increment) -> tuple[Snapshot, Outcome]:
    return fold.add(spec.model, snapshot, given, snapshot.version, inference=spec.inference)


def started(spec: Spec) -> Snapshot:
    return epochs.met(fold.start(spec.model, "f"), {0: 0}, kept=True)


def visits(spec: Spec, events: np.ndarray) -> Iterator[Visit]:
    """All passes over events of one partition by one worker that always has the newest snapshot."""
    snapshot, minibatch = started(spec), spec.inference.minibatch
    for _ in range(spec.inference.n_epochs):
        for begin in range(0, len(events), minibatch):
            start = methods.base_of(spec.model, spec.inference, snapshot).posterior
            given = increment(spec, snapshot, events, begin, min(begin + minibatch, len(events)))
            snapshot, outcome = folded(spec, snapshot, given)
            yield Visit(start, given, outcome, snapshot)
        snapshot = epochs.turned(epochs.fixed(snapshot, {0: len(events)}), spec.inference.n_epochs)
