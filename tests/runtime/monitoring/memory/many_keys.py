"""Many keys on a posterior topic, as a master writes them; and as a program, what an index of them costs."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Output
from streaminfer.models.checks import check
from streaminfer.models.model import Vector
from streaminfer.runtime import names
from streaminfer.runtime.monitoring.memory.filling import Filler
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.runtime.owning.manifest import ManifestWriter
from streaminfer.spec import Spec, parse_spec
from streaminfer.tables.kinds import folding_of
from streaminfer.variational.arena import Entry
from streaminfer.wire import key_records

BATCH = 50_000


def spec_of() -> Spec:
    model = {"kind": "poisson", "field": "k"}
    return parse_spec({"name": "many", "data": {"partitions": 1}, "model": model, "key": "city"})


def publish(bus: Bus, spec: Spec, n: int, version: int = 1) -> None:
    """n keys with one event each, whose count is the key's last digit; and the manifest after them."""
    topic = names.topic(spec, "posterior")
    one_event = [check(spec.fields, [{"k": count, "city": "x"}]).events.numbers for count in range(10)]
    learned = [spec.model.statistics(numbers) for numbers in one_event]
    for begin in range(0, n, BATCH):
        bus.publish(
            [_row(topic, str(i).encode(), learned[i % 10], version) for i in range(begin, min(n, begin + BATCH))]
        )
    bus.publish(list(_manifest(bus, spec, n, version)))


def _row(topic: str, label: bytes, statistics: Vector, version: int) -> Output:
    entry = Entry(label, 0, 1.0, 1000.0, 1.0, 0.0, statistics)
    return Output(topic, key_records.encode(entry, version), key_records.record_key(label, 0), 0)


def _manifest(bus: Bus, spec: Spec, n: int, version: int) -> Iterator[Output]:
    table = folding_of(spec).table(spec, 0)
    start = table.snapshot
    snapshot = replace(start, version=version, created_at=version, counts=replace(start.counts, n_events=n, n_keys=n))
    yield from ManifestWriter(spec, bus, 0).outputs(snapshot, table.described(snapshot))


def resident_mb() -> float:
    """The most so far, since this program began: what getrusage tells includes the one that started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def main(url: str, n: int) -> None:
    """Prints the seconds until all keys can be asked for, MB of memory beyond those of the start, and p99 in ms.

    That of the clock, and that of the processor: many tests share a machine.
    """
    spec = spec_of()
    with open_bus(url) as bus:
        memory = Memory(spec, "monitor-0")
        before, begun = resident_mb(), time.monotonic()
        filler = Filler(spec, bus, memory)
        while memory.keys is None or not memory.keys.complete:
            filler.poll(0.0)
        seconds = time.monotonic() - begun
        index, times, works = memory.keys, [], []
        for i in np.random.default_rng(1).integers(0, n, 2000).tolist():
            begun, worked = time.perf_counter(), time.thread_time()
            found = index.find(str(i))
            times.append(time.perf_counter() - begun)
            works.append(time.thread_time() - worked)
            assert found is not None
            assert float(found.mean["rate"]) == (1 + i % 10) / 2
        p99 = [1000 * float(np.quantile(each, 0.99)) for each in (times, works)]
        print(seconds, resident_mb() - before, *p99)
        filler.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
