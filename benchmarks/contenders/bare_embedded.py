"""The bare limit on the embedded bus: SELECT from its file, orjson.loads, accumulate X'X and X'y. No posterior."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import numpy as np
import orjson

from benchmarks.contenders.task import Outcome, Task, received, tell
from benchmarks.workload import TARGET
from streaminfer.bus.sqlite.schema import OFFSET_BITS
from streaminfer.bus.sqlite.store import FILE_NAME

READ = "SELECT value FROM log WHERE id >= ? AND id < ? ORDER BY id"


def main(task: Task) -> Outcome:
    work = task.work
    connection = sqlite3.connect(Path(task.address) / FILE_NAME)
    names = [*work.features, TARGET]
    sums = np.zeros((work.d + 1, work.d + 1))
    ids = connection.execute("SELECT id FROM partitions WHERE topic = ? ORDER BY number", (work.topic,)).fetchall()
    events, began = 0, time.time()
    for (id_,) in ids:
        cursor = connection.execute(READ, (id_ << OFFSET_BITS, (id_ + 1) << OFFSET_BITS))
        while found := cursor.fetchmany(10_000):
            parsed = [orjson.loads(value) for (value,) in found]
            rows = np.array([[event[name] for name in names] for event in parsed])
            sums += rows.T @ rows
            events += len(rows)
    ended = time.time()
    connection.close()
    return Outcome(events, began, ended, float(sums[-1, -1]))


if __name__ == "__main__":
    tell(main(received()))
