"""The work that everybody gets: events of a regression or a mixture, put on a topic beforehand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Bus, Output, Topic
from streaminfer.topics import formats
from streaminfer.wire.events.rows import Table, pack

EVENTS_PER_ROWS: Final = 512
BATCH: Final = 10_000
TARGET: Final = "y"
LINEAR, LOGISTIC, MIXTURE = "linear_regression", "logistic_regression", "gaussian_mixture"
COMPONENTS: Final = 5


@dataclass(frozen=True)
class Workload:
    """`events` of a regression on `d` features, or a mixture of `d` fields, in a data format, over partitions."""

    form: str
    events: int
    d: int = 16
    partitions: int = 4
    kind: str = LINEAR

    @property
    def features(self) -> list[str]:
        return [f"x{i:02}" for i in range(self.d)]

    @property
    def names(self) -> list[str]:
        """The columns of the events' matrix."""
        return self.features if self.kind == MIXTURE else [*self.features, TARGET]

    @property
    def records(self) -> int:
        return self.events // EVENTS_PER_ROWS if self.form == "rows" else self.events

    @property
    def topic(self) -> str:
        return f"bench-{self.kind}-{self.form}-{self.d}-{self.partitions}-{self.events}"


def matrix(work: Workload) -> NDArray[np.float64]:
    """Events (n, d + 1), the target last, of a mixture (n, d); the same ones every time."""
    rng = np.random.default_rng(20160)
    features = rng.normal(size=(work.events, work.d))
    if work.kind == MIXTURE:
        centres = 3.0 * rng.normal(size=(COMPONENTS, work.d))
        return np.asarray(features + centres[rng.integers(0, COMPONENTS, work.events)], dtype=np.float64)
    means = features @ np.linspace(-1.0, 1.0, work.d)
    if work.kind == LOGISTIC:
        return np.column_stack([features, means + rng.logistic(size=work.events) > 0])
    target = means + rng.normal(size=work.events)
    return np.column_stack([features, target])


def encoded(work: Workload, events: NDArray[np.float64]) -> Iterator[bytes]:
    """Records of events in a data format; Avro's doubles are those of numpy."""
    names = work.names
    if work.form == "rows":
        for begin in range(0, len(events), EVENTS_PER_ROWS):
            table = Table(tuple(names), events[begin : begin + EVENTS_PER_ROWS])
            yield pack(_schema_id("rows"), table)
    elif work.form == "avro":
        header = b"\0" + _schema_id("avro").to_bytes(4, "big")
        for row in events.astype("<f8"):
            yield header + row.tobytes()
    else:
        for row in events.tolist():
            yield json.dumps(dict(zip(names, row, strict=True))).encode()


def avro_schema(work: Workload) -> dict[str, Any]:
    """The writer's schema of `encoded`, for those who read with an Avro library."""
    fields = [{"name": name, "type": "double"} for name in work.names]
    return {"type": "record", "name": "event", "fields": fields}


def load(bus: Bus, work: Workload) -> None:
    """Puts the events on their topic, evenly over its partitions; the key of a record is its partition."""
    bus.create([Topic(work.topic, work.partitions)])
    if sum(bus.ends(work.topic).values()):
        return
    batch: list[Output] = []
    for i, value in enumerate(encoded(work, matrix(work))):
        index = i % work.partitions
        batch.append(Output(work.topic, value, str(index).encode(), index))
        if len(batch) == BATCH:
            bus.publish(batch)
            batch = []
    bus.publish(batch)


def spec(name: str, work: Workload, inference: dict[str, Any] | None = None, own: bool = False) -> str:
    """A spec (YAML) for the topic of the work, or with `own` for a topic of its own."""
    data = {"format": work.form, "partitions": work.partitions} if own else {"format": work.form, "topic": work.topic}
    model: dict[str, Any] = {"kind": work.kind, "features": work.features, "target": TARGET}
    if work.kind == MIXTURE:
        model = {"kind": work.kind, "fields": work.features, "components": COMPONENTS}
    return json.dumps({"name": name, "data": data, "model": model, "inference": inference or {}})


def _schema_id(form: str) -> int:
    return formats()[form].schema_id
