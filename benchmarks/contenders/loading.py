"""Files onto a bus: ours, the plain loop that goes nowhere, and kafka-python's producer of the same records."""

from __future__ import annotations

import csv
import json
import time
import uuid
from pathlib import Path

import numpy as np
from kafka import KafkaProducer

from benchmarks.contenders.task import Outcome, Task, received, tell
from benchmarks.workload import TARGET, encoded, matrix, spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Partition, Topic
from streaminfer.runtime import names
from streaminfer.runtime.loading import numbers
from streaminfer.runtime.loading.produce import Loader
from streaminfer.spec import Spec, load_spec
from streaminfer.wire.events.formats import format_of

OURS, WITHOUT, PLAIN, PRODUCER = "ours", "without pyarrow", "plain", "producer"


def ours(task: Task) -> Outcome:
    """The loader of `produce`, with its look at what will be dead letters. What is on the bus then is added up."""
    if task.label == WITHOUT:
        vars(numbers)["pyarrow_csv"] = lambda: None
    file = Path(task.file)
    about = file.with_suffix(f".{task.work.form}.yaml")
    name = f"load-{uuid.uuid4().hex[:12]}"
    about.write_text(spec(name, task.work, own=True))
    found = load_spec(str(about))
    with open_bus(task.address) as bus:
        names.create_topics(found, bus)
        began = time.time()
        for progress in Loader(found, bus, file, judged=True).run():
            events = progress.rows
        ended = time.time()
        return Outcome(events, began, ended, _squares(found, bus))


def _squares(found: Spec, bus: Bus) -> float:
    """Of all targets on the data topic, as a worker reads them."""
    topic, made, total = names.data_topic(found), format_of(found), 0.0
    for index, end in bus.ends(topic).items():
        with bus.reader({Partition(topic, index): 0}) as reader:
            while reader.position(Partition(topic, index)) < end:
                for part in reader.poll(1.0).slices:
                    decoded = made.decode([record.value for record in part.records])
                    total += float(np.sum(decoded.events.numbers[:, -1] ** 2))
    return total


def plain(task: Task) -> Outcome:
    """csv, float and json.dumps of each row, without a bus."""
    events, squares, began = 0, 0.0, time.time()
    with Path(task.file).open(newline="") as stream:
        rows = csv.reader(stream)
        header = next(rows)
        for row in rows:
            event = dict(zip(header, map(float, row), strict=True))
            json.dumps(event).encode()
            squares += event[TARGET] ** 2
            events += 1
    return Outcome(events, began, time.time(), squares)


def producer(task: Task) -> Outcome:
    """kafka-python's producer of records that are there already, in batches of the size of ours, compressed as ours."""
    events = matrix(task.work)
    records, topic = list(encoded(task.work, events)), f"bare-{uuid.uuid4().hex[:12]}"
    with open_bus(task.address) as bus:
        bus.create([Topic(topic, task.work.partitions)])
    servers = task.address.removeprefix("kafka://").split("/", maxsplit=1)[0]
    made = KafkaProducer(
        bootstrap_servers=servers, acks="all", compression_type="lz4", linger_ms=50, batch_size=64 << 10
    )
    began = time.time()
    for i, record in enumerate(records):
        made.send(topic, record, partition=i % task.work.partitions)
    made.flush()
    ended = time.time()
    made.close()
    return Outcome(len(events), began, ended, float(np.sum(events[:, -1] ** 2)))


def main(task: Task) -> Outcome:
    return {OURS: ours, WITHOUT: ours, PLAIN: plain, PRODUCER: producer}[task.label](task)


if __name__ == "__main__":
    tell(main(received()))
