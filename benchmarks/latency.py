"""From an event's append to the first snapshot, seen by a reader, that has it in its frontier."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import ours
from benchmarks.processes import Failed, output, running
from benchmarks.workload import Workload, encoded, matrix
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.runtime.following.follower import Follower

TICK_S = 0.01
WARM_S = 2.0
"""Events of the first seconds are sent and not counted: processes have just started."""

SLOWEST = 0.9
"""Of the rate that was asked for."""


class Append(NamedTuple):
    """Events that were handed to the bus at one time: their partition and the position after the last of them."""

    at: float
    partition: int
    end: int
    events: int


class Sight(NamedTuple):
    """A snapshot's frontier, and when a reader had it."""

    at: float
    frontier: Mapping[int, int]


def delays(appends: Sequence[Append], sights: Sequence[Sight]) -> list[float]:
    """Seconds that each event waited; raises LookupError if one was never seen."""
    found: list[float] = []
    for append in appends:
        seen = next((s.at for s in sights if s.frontier.get(append.partition, 0) >= append.end), None)
        if seen is None:
            raise LookupError(f"no snapshot has partition {append.partition} up to {append.end}")
        found += [seen - append.at] * append.events
    return found


def measure(folder: Path, url: str, rate: int, seconds: float) -> dict[str, float]:
    """p50 and p99 in milliseconds at `rate` events a second, one worker, an Avro record for each event."""
    work = Workload("avro", round(rate * (seconds + WARM_S)))
    mine = ours.prepare(folder, url, work, {}, own=True)
    sights: list[Sight] = []
    with open_bus(url) as bus, ExitStack() as stack:
        names.create_topics(mine.spec, bus)
        follower = Follower(mine.spec, bus)
        stack.callback(follower.close)
        ours.start(stack, mine, work.partitions, workers=1)
        while follower.snapshot is None:
            follower.poll(0.5)
        feeder = stack.enter_context(
            running(["-m", "benchmarks.latency", url, names.data_topic(mine.spec), str(rate), str(seconds + WARM_S)])
        )
        while follower.snapshot.n_events < work.events:
            sights += [Sight(time.time(), snapshot.frontier.positions) for snapshot in follower.poll(0.2)]
        appends = [Append(*entry) for entry in json.loads(output(feeder))]
    took = appends[-1].at - appends[0].at
    if work.events / took < SLOWEST * rate:
        raise Failed(
            f"{work.events / took:.0f} events a second were sent, not {rate}: the machine has no room for more"
        )
    counted = [append for append in appends if append.at >= appends[0].at + WARM_S]
    p50, p99 = np.percentile(delays(counted, sights), [50, 99])
    return {"p50": 1000 * p50, "p99": 1000 * p99}


def feed(url: str, topic: str, rate: int, seconds: float) -> list[Append]:
    """Appends at a steady rate, a few events every tick, the partitions in turn."""
    work = Workload("avro", round(rate * seconds))
    values = list(encoded(work, matrix(work)))
    appends = []
    with open_bus(url) as bus:
        bus.publish([])
        began, sent, turn = time.time(), 0, 0
        while sent < len(values):
            due = min(len(values), int((time.time() - began) * rate))
            if due > sent:
                at = time.time()
                batch = [Output(topic, value, partition=turn) for value in values[sent:due]]
                offsets = bus.publish(batch)
                appends.append(Append(at, turn, offsets[-1] + 1, len(batch)))
                sent, turn = due, (turn + 1) % work.partitions
            time.sleep(TICK_S)
    return appends


if __name__ == "__main__":
    print(json.dumps(feed(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))))
