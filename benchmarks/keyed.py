"""Keyed posteriors: the rate of absorbing, what a master holds of a key, how soon it is back, what snapshots write."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import keyed_workload, ours
from benchmarks.contenders.key_dict import Held
from benchmarks.contenders.task import Outcome
from benchmarks.keyed_workload import Keyed
from benchmarks.ours import Ours
from benchmarks.processes import Failed, output, resident, running
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Output, Partition, Record
from streaminfer.runtime import names
from streaminfer.runtime.following.follower import Follower
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records

LOOK_S = 0.05


@dataclass(frozen=True)
class Found:
    """Bytes are of one key; `topic` is all that snapshots wrote, `restore_s` goes from a kill to the next snapshot."""

    rate: float
    absorbed: float
    restored: float
    topic: float
    restore_s: float
    read_s: float


def prepare(folder: Path, url: str, work: Keyed) -> Ours:
    """A posterior that nobody has begun, with its events on a topic of its own."""
    mine = empty(folder, url, work)
    with open_bus(url) as bus:
        keyed_workload.load(bus, names.data_topic(mine.spec), work)
    return mine


def empty(folder: Path, url: str, work: Keyed) -> Ours:
    """The same without events."""
    mine = ours.written(folder, url, lambda name: keyed_workload.spec(name, work))
    with open_bus(url) as bus:
        names.create_topics(mine.spec, bus)
    return mine


def measure(mine: Ours, nothing: Ours, work: Keyed) -> Found:
    """Absorbs, kills the master, waits for its successor, and reads what is on the bus; `nothing` has no events."""
    with open_bus(mine.url) as bus, ExitStack() as stack:
        bare = _without_keys(bus, nothing)
        first = ours.start(stack, mine, work.partitions, workers=1)
        done = _absorbed(bus, mine, work)
        absorbed = resident(first.pid) - bare
        first.kill()
        began = time.monotonic()
        # One more event, which changes no sum: what comes after it shows that the master is at work again.
        one = keyed_workload.record(np.zeros((1, 2)))
        bus.publish([Output(names.data_topic(mine.spec), one, partition=0)])
        second = ours.master(stack, mine)
        _await(bus, mine, work.events + 1)
        restore_s = time.monotonic() - began
        restored = resident(second.pid) - bare
        read_s, size = read(bus, mine, work)
    return Found(done.rate, absorbed / work.keys, restored / work.keys, size / work.keys, restore_s, read_s)


def absorb(mine: Ours, work: Keyed) -> Outcome:
    """Runs the services until all events are in the posterior."""
    with open_bus(mine.url) as bus, ExitStack() as stack:
        ours.start(stack, mine, work.partitions, workers=1)
        done = _absorbed(bus, mine, work)
        read(bus, mine, work)
    return done


def held(mine: Ours, work: Keyed) -> Held:
    """What a plain dict makes of the same records."""
    with running(["-m", "benchmarks.contenders.key_dict", mine.url, names.data_topic(mine.spec)]) as process:
        found = Held(**json.loads(output(process).splitlines()[-1]))
    total = float(keyed_workload.totals(work).sum())
    if (found.events, found.keys, found.total) != (work.events, work.keys, total):
        raise Failed(f"the dict: {found}, of {work} with a sum of {total}")
    return found


def _without_keys(bus: Bus, nothing: Ours) -> int:
    """The memory of a master that has published and holds no key."""
    with ExitStack() as stack:
        process = ours.master(stack, nothing)
        _await(bus, nothing, 0)
        return resident(process.pid)


def _absorbed(bus: Bus, mine: Ours, work: Keyed) -> Outcome:
    first = _await(bus, mine, 1)
    last = _await(bus, mine, work.events)
    if last.counts.n_keys != work.keys:
        raise Failed(f"{last.counts.n_keys} keys in the posterior of {work.keys}")
    return ours.outcome(first, last, work.events, float("nan"))


def _await(bus: Bus, mine: Ours, events: int) -> Snapshot:
    """The newest manifest, when it has N events. It is looked up: who follows them has every key to read."""
    deadline = time.monotonic() + ours.PATIENCE_S
    while time.monotonic() < deadline:
        with closing(Follower(mine.spec, bus)) as follower:
            found = follower.catch_up()
        if found is not None and found.n_events >= events:
            return found
        time.sleep(LOOK_S)
    raise Failed(f"the posterior did not get {events} events within {ours.PATIENCE_S:g} seconds")


def read(bus: Bus, mine: Ours, work: Keyed) -> tuple[float, int]:
    """Seconds of a plain read of the posterior partition, and its bytes; fails unless all keys have their sums."""
    place = Partition(names.topic(mine.spec, "posterior"), 0)
    size, sums = 0, np.full(work.keys, np.nan)
    spent, end = 0.0, bus.ends(place.topic)[place.index]
    with bus.reader({place: bus.starts(place.topic)[place.index]}) as reader:
        while reader.position(place) < end:
            began = time.perf_counter()
            slices = reader.poll(1.0).slices
            spent += time.perf_counter() - began
            for part in slices:
                size += sum(len(each.key or b"") + len(each.value or b"") for each in part.records)
                _sum_up(part.records, mine.spec.model.size, sums)
    wrong = np.flatnonzero(sums != keyed_workload.totals(work))
    if len(wrong):
        raise Failed(f"{len(wrong)} of {work.keys} keys do not have the sum of their counts, the first is {wrong[0]}")
    return spent, size


def _sum_up(records: Sequence[Record], size: int, sums: NDArray[np.float64]) -> None:
    """The newest sum of counts of each key that is among the records."""
    places = [(key_records.place_of(record.key), record.value) for record in records]
    found = [(place.label, value) for place, value in places if place is not None and value is not None]
    numbers = key_records.decode([label for label, _ in found], [value for _, value in found], size).numbers
    for (label, _), row in zip(found, numbers, strict=True):
        sums[int(label)] = row[key_records.NUMBERS]
