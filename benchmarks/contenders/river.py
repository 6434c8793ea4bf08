"""River: `learn_one` of its Bayesian linear, or its logistic regression on events that are in memory already."""

from __future__ import annotations

import time

from river.linear_model import BayesianLinearRegression, LogisticRegression

from benchmarks.contenders.task import Outcome, Task, received, tell
from benchmarks.workload import LOGISTIC, matrix


def main(task: Task) -> Outcome:
    work = task.work
    events = [(dict(zip(work.features, row[:-1], strict=True)), row[-1]) for row in matrix(work).tolist()]
    model = LogisticRegression() if work.kind == LOGISTIC else BayesianLinearRegression()
    squares = sum(y * y for _, y in events)
    began = time.time()
    for x, y in events:
        model.learn_one(x, y)
    return Outcome(len(events), began, time.time(), squares)


if __name__ == "__main__":
    tell(main(received()))
