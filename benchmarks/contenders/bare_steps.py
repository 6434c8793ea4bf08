"""The pure steps of a worker and a master on events in memory: no bus, no records, no processes."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np

from benchmarks.contenders.task import Outcome, Task, received, tell
from benchmarks.proof import sum_of_squares
from benchmarks.workload import matrix, spec
from streaminfer.models.model import with_posterior
from streaminfer.spec import parse_spec
from streaminfer.variational import fold, methods
from streaminfer.variational.counts import Counts
from streaminfer.variational.frontier import Frontier
from streaminfer.variational.increment import Change, Increment, Provenance


def main(task: Task) -> Outcome:
    made = parse_spec(json.loads(spec("bench", task.work)))
    model, inference, events = with_posterior(made.model), made.inference, matrix(task.work)
    snapshot = replace(fold.start(model, made.fingerprint), frontier=Frontier({0: 0}))
    began = time.time()
    for batch in np.split(events, range(inference.minibatch, len(events), inference.minibatch)):
        at, known = snapshot.frontier.positions[0], methods.base_of(model, inference, snapshot)
        step = methods.learn(model, inference, known, batch, None)
        came = Provenance(made.fingerprint, "bench", "", 0, at, at + len(batch), snapshot.version)
        increment = Increment(came, Counts(len(batch), score=step.score), Change(step.statistics))
        snapshot, _ = fold.add(model, snapshot, increment, snapshot.version, inference=inference)
        snapshot = replace(snapshot, version=snapshot.version + 1)
    ended = time.time()
    return Outcome(snapshot.n_events, began, ended, sum_of_squares(model, snapshot.payload.statistics, events))


if __name__ == "__main__":
    tell(main(received()))
