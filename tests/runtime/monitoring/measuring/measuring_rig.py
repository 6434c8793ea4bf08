"""Events on a bus, and a posterior of them as a master would have left it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from streaminfer import fit
from streaminfer.bus.protocol import Bus, Output
from streaminfer.measuring.measurement import Measurement
from streaminfer.runtime import names
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.tasks.table import TASKS
from streaminfer.runtime.monitoring.measuring.working import measured
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.frontier import Frontier
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED

Rows = Sequence[Mapping[str, Any]]


def spec_of(model: Mapping[str, Any], inference: Mapping[str, Any] | None = None, **monitor: Any) -> Spec:
    return parse_spec(
        {
            "name": "demo",
            "data": {"partitions": 2},
            "model": model,
            "inference": dict(inference or {}),
            "monitor": monitor,
        }
    )


LINEAR = {"kind": "linear_regression", "features": ["a", "b"], "target": "t"}
LOGISTIC = {"kind": "logistic_regression", "features": ["a", "b"], "target": "t"}


def linear_rows(n: int, seed: int = 0) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    x, noise = rng.standard_normal((n, 2)), rng.standard_normal(n)
    return [
        {"a": a, "b": b, "t": 1 + 2 * a - b + 0.5 * e} for (a, b), e in zip(x.tolist(), noise.tolist(), strict=True)
    ]


def logistic_rows(n: int, seed: int = 0) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    x, u = rng.standard_normal((n, 2)), rng.random(n)
    ones = u < 1 / (1 + np.exp(-(x @ [1.0, -0.5])))
    return [{"a": a, "b": b, "t": int(t)} for (a, b), t in zip(x.tolist(), ones.tolist(), strict=True)]


def sent(spec: Spec, bus: Bus, rows: Rows) -> None:
    """Writes events to the data topic, in turn to its partitions."""
    names.create_topics(spec, bus)
    topic = names.data_topic(spec)
    bus.publish([Output(topic, json.dumps(row).encode(), partition=i % 2) for i, row in enumerate(rows)])


def posterior(spec: Spec, bus: Bus, rows: Rows, version: int = 1, n_events: int | None = None) -> Snapshot:
    """A snapshot at the end of the log, of rows that may be others than those in it."""
    found = fit(spec, rows).snapshot
    topic = names.data_topic(spec)
    frontier = Frontier(positions=bus.ends(topic), topic_id=bus.topic_id(topic))
    counts = replace(found.counts, n_events=len(rows) if n_events is None else n_events)
    return replace(found, version=version, frontier=frontier, counts=counts)


def context_of(spec: Spec, bus: Bus, snapshot: Snapshot, *older: Snapshot) -> Context:
    return Context(spec, bus, DECLARED, snapshot, older)


def checked(check: str, context: Context) -> Measurement:
    return measured(TASKS[check], context)[0]


def values(found: Measurement, coordinate: str = "") -> dict[str, float | None]:
    return {each.name: each.value for each in found.values if each.coordinate == coordinate}
