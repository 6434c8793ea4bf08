"""The bare limit on Kafka: consume with kafka-python, decode with fastavro, accumulate X'X and X'y. No posterior."""

from __future__ import annotations

import io
import time
from typing import Any

import fastavro
import numpy as np
from kafka import KafkaConsumer, TopicPartition

from benchmarks.contenders.task import Outcome, Task, received, tell
from benchmarks.workload import avro_schema
from streaminfer.wire.events.rows import unpack

HEADER = 5
"""Bytes of the Confluent framing."""


def main(task: Task) -> Outcome:
    work = task.work
    places = [TopicPartition(work.topic, index) for index in task.partitions]
    consumer = KafkaConsumer(
        bootstrap_servers=task.address, enable_auto_commit=False, max_partition_fetch_bytes=1 << 20
    )
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    left = sum(consumer.end_offsets(places).values()) - sum(consumer.position(place) for place in places)
    read, schema = fastavro.schemaless_reader, fastavro.parse_schema(avro_schema(work))
    sums = np.zeros((work.d + 1, work.d + 1))
    events, began = 0, 0.0
    while left > 0:
        values = [record.value for records in consumer.poll(1000, 10_000).values() for record in records]
        if not values:
            continue
        if work.form == "rows":
            rows = np.concatenate([unpack(value).values for value in values])
        else:
            found: list[Any] = [read(io.BytesIO(value[HEADER:]), schema, None) for value in values]
            rows = np.array([tuple(event.values()) for event in found])
        sums += rows.T @ rows
        events += len(rows) if began else 0  # as with ours: when the first were fetched is not known
        began = began or time.time()
        left -= len(values)
    ended = time.time()
    consumer.close()
    return Outcome(events, began, ended, float(sums[-1, -1]))


if __name__ == "__main__":
    tell(main(received()))
