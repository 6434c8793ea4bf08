"""One pass of svb over events in memory, as a worker and a master make it, without a bus."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streaminfer.models.model import Model
from streaminfer.variational import fold, methods
from streaminfer.variational.methods import svb
from streaminfer.variational.outcomes import Outcome
from tests.made import changed, new_increment
from tests.variational.plain import SVB


def one_pass(model: Model, events: np.ndarray, minibatch: int) -> np.ndarray:
    """The statistics that a master has after it folded the increments of all minibatches in turn."""
    snapshot = changed(fold.start(model, "f"), positions={0: 0})
    for begin in range(0, len(events), minibatch):
        batch = events[begin : begin + minibatch]
        step = svb.step(model, methods.base_of(model, SVB, snapshot), batch)
        increment = new_increment(
            begin=begin, end=begin + len(batch),
            n_events=len(batch), base_version=snapshot.version, score=step.score,
            statistics=step.statistics,
        )  # fmt: skip
        snapshot, outcome = fold.add(model, snapshot, increment, snapshot.version)
        assert outcome is Outcome.FOLDED
        snapshot = replace(snapshot, version=snapshot.version + 1)
    assert snapshot.n_events == len(events)
    return snapshot.payload.statistics
