"""Quix Streams with exactly-once processing: the same sums as state, updated with every event.

The state is kept as the bytes of a matrix, the cheapest way that its store allows; it has one for each message key,
which is the partition. `began` is the first event, `ended` the commit after the last.
"""

from __future__ import annotations

import io
import tempfile
import time
from typing import Any

import fastavro
import numpy as np
from quixstreams import Application, State

from benchmarks.contenders.task import Outcome, Task, received, tell
from benchmarks.workload import avro_schema

HEADER = 5
"""Bytes of the Confluent framing."""


class Running:
    """Adds an event to the sums in the state."""

    def __init__(self, task: Task) -> None:
        self._schema = fastavro.parse_schema(avro_schema(task.work))
        self._width = task.work.d + 1
        self.began = 0.0
        self.squares: dict[bytes, float] = {}

    def __call__(self, value: bytes, key: bytes, _timestamp: int, _headers: object, state: State) -> None:
        self.began = self.began or time.time()
        event: Any = fastavro.schemaless_reader(io.BytesIO(value[HEADER:]), self._schema, None)
        row = np.array(tuple(event.values()))
        held = state.get_bytes("sums")
        sums = np.outer(row, row)
        if held is not None:
            sums += np.frombuffer(held).reshape(self._width, self._width)
        state.set_bytes("sums", sums.tobytes())
        self.squares[key] = float(sums[-1, -1])


def main(task: Task) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        app = Application(
            broker_address=task.address,
            consumer_group=task.label,
            auto_offset_reset="earliest",
            processing_guarantee="exactly-once",
            state_dir=folder,
            loglevel="WARNING",
            auto_create_topics=True,
        )
        topic = app.topic(task.work.topic, value_deserializer="bytes", key_deserializer="bytes")
        running = Running(task)
        app.dataframe(topic).update(running, stateful=True, metadata=True)
        app.run(count=task.work.records, collect=False)
        ended = time.time()
    return Outcome(task.work.events, running.began, ended, sum(running.squares.values()))


if __name__ == "__main__":
    tell(main(received()))
