"""Files onto a bus: a CSV file of the regression's events, beside a plain loop over it and a plain producer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.contenders.loading import OURS, PLAIN, PRODUCER, WITHOUT
from benchmarks.contenders.task import Outcome, Task
from benchmarks.measure import Aim, Case, Ratio, Samples, rate
from benchmarks.processes import Failed, contend
from benchmarks.workload import Workload, matrix

FORMS = ("json", "rows", "avro")
LOOP = "plain loop"


@dataclass(frozen=True)
class Loading:
    """Loads a file of so many events. Every rate is of all of them, as their sum of squares shows."""

    folder: Path
    events: int

    def run(self, label: str, form: str, url: str = "") -> Outcome:
        work = Workload(form, self.events)
        outcome = contend("loading", Task(work, url, label=label, file=str(self._file(work))))
        expected = float(np.sum(matrix(work)[:, -1] ** 2))
        if outcome.events != self.events or not np.isclose(outcome.sum_of_squares, expected):
            raise Failed(f"{label}: {outcome} of {self.events} events whose sum of y² is {expected!r}")
        return outcome

    def rate(self, name: str, label: str, form: str, url: str = "") -> Callable[[], Samples]:
        return rate(name, lambda: self.run(label, form, url))

    def _file(self, work: Workload) -> Path:
        path = self.folder / f"load-{self.events}.csv"
        if not path.exists():
            rows = matrix(replace(work, form="json")).tolist()
            lines = [",".join(work.names), *(",".join(map(repr, row)) for row in rows)]
            path.write_text("\n".join(lines) + "\n")
        return path


def cases(folder: Path, embedded: str, kafka: str | None, events: int) -> Iterator[Case]:
    """`events` onto Kafka, and four times as many onto the embedded bus."""
    loading = Loading(folder, 4 * events)
    loop = loading.rate(LOOP, PLAIN, "json")
    without = "rows, without pyarrow"
    yield Case(
        "p1",
        "produce, a CSV file onto the embedded bus",
        "events/s",
        {
            **{form: loading.rate(form, OURS, form, embedded) for form in FORMS},
            without: loading.rate(without, WITHOUT, "rows", embedded),
            LOOP: loop,
        },
        [_over("json", LOOP, 1.2), _over("rows", LOOP, 10.0), _over(without, LOOP, 5.0)],
    )
    if kafka is None:
        return
    loading, producer = Loading(folder, events), "kafka-python, avro"
    yield Case(
        "p2",
        "produce, a CSV file onto Kafka",
        "events/s",
        {
            **{form: loading.rate(form, OURS, form, kafka) for form in FORMS},
            producer: loading.rate(producer, PRODUCER, "avro", kafka),
            LOOP: loading.rate(LOOP, PLAIN, "json"),
        },
        [_over("avro", producer, 0.8), _over("rows", LOOP)],
    )


def _over(name: str, peer: str, at_least: float | None = None) -> Ratio:
    return Ratio(f"{name} of {peer}", name, peer, None if at_least is None else Aim(">=", at_least))
