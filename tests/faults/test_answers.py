"""Questions to a running job, on every bus: the answers are exact, and the same after kill -9 while they are made."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Partition
from streaminfer.combining.answering import answer
from streaminfer.combining.questions import Answer, Asked, Question
from streaminfer.runtime import names
from streaminfer.runtime.api.snapshot import events_of
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.pooling.asking import Asker
from streaminfer.spec import Spec
from streaminfer.tables.draws import segment_of
from streaminfer.wire.avro import DECLARED
from tests.faults.buses import kafka_later
from tests.faults.programs import Programs, services, wait_for

N = 2000
RNG = np.random.default_rng(8)
ROWS = [{"a": float(a), "y": int(y)} for a, y in zip(RNG.normal(size=N).round(5), RNG.integers(0, 2, N), strict=True)]
KILLS = 2


def write_spec(folder: Path) -> Path:
    document = {
        "name": "asked",
        "data": {"partitions": 4},
        "model": {"kind": "logistic_regression", "features": ["a"], "target": "y"},
        "inference": {
            "method": "mh",
            "subposteriors": 2,
            "chains": 1,
            "draws": 50,
            "snapshot_ms": 20,
            "combine": {"correct": "none"},
        },
    }
    path = folder / "asked.yaml"
    path.write_text(json.dumps(document))
    return path


def shares(spec: Spec, bus: Bus) -> tuple[Asked, ...] | None:
    """The first segments, once they have all events."""
    with closing(Follower(spec, bus)) as follower:
        newest = follower.catch_up()
    found = [] if newest is None else [segment_of(newest, j) for j in range(2)]
    fixed = tuple(Asked(j, each.number, each.spans) for j, each in enumerate(found) if each is not None)
    return fixed if sum(each.size for each in found if each is not None) >= N else None


def rows_of(spec: Spec, bus: Bus, share: Asked) -> Any:
    """The events of a share, read without any of the code that samplers read them with."""
    events = []
    for partition in bus.starts(names.data_topic(spec)):
        for span in (each for each in share.spans if each.partition == partition):
            events += [json.loads(value) for value in values_of(spec, bus, span.partition, span.start, span.end)]
    return np.ascontiguousarray(spec.target.rows(events_of(spec.event_fields, events).numbers))


def values_of(spec: Spec, bus: Bus, partition: int, start: int, end: int) -> list[bytes]:
    at, found = Partition(names.data_topic(spec), partition), list[bytes]()
    with bus.reader({at: start}) as reader:
        while reader.position(at) < end:
            for record in (each for part in reader.poll(0.5).slices for each in part.records):
                if record.offset < end and record.value is not None:
                    found.append(record.value)
    return found


def answered(asker: Asker) -> dict[int, Answer]:
    found: dict[int, Answer] | None = None

    def there() -> bool:
        nonlocal found
        found = asker.poll(0.2)
        return found is not None

    wait_for(there, "all answers are there", interval=0.05)
    return found or {}


@kafka_later
def test_a_running_job_answers_the_same_after_kills(programs: Programs, bus_url: str) -> None:
    path, data = write_spec(programs.folder), programs.folder / "rows.ndjson"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    spec = load_spec(path)
    assert spec.sampling is not None
    up = programs.start("up", path, "--data", data, "--bus", bus_url)
    with ExitStack() as stack:
        bus = stack.enter_context(open_bus(bus_url))
        wait_for(lambda: names.topic(spec, "combined") in bus.topics(), "the topics are there")
        wait_for(lambda: shares(spec, bus) is not None, "a segment has all rows")
        asked = shares(spec, bus)
        assert asked is not None
        asker = stack.enter_context(closing(Asker(spec, spec.sampling, bus, DECLARED)))
        writer = stack.enter_context(bus.writer("asked.outsider"))
        rows = [rows_of(spec, bus, share) for share in asked]
        theta = np.random.default_rng(1).normal(0, 0.3, (50, 2))

        question = Question("log_likelihood", theta, asked)
        writer.commit(asker.outputs(question))
        for j, each in answered(asker).items():
            wanted = spec.target.log_likelihood(theta, rows[j]).sum(axis=1)
            np.testing.assert_allclose(each.values, wanted, rtol=1e-12)
            assert each.n_events == len(rows[j])

        long = Question("refine", np.tile(theta, (24, 1)), asked, np.array([0.1, 0.2]), 3, 1)
        writer.commit(asker.outputs(long))
        for _ in range(KILLS):
            time.sleep(0.7)
            assert asker.poll(0.0) is None, "it is killed while it answers"
            for pid in services(up.pid, "sampler"):
                os.kill(pid, signal.SIGKILL)
        for j, each in answered(asker).items():
            wanted = answer(spec.target, rows[j], long, j, 2).values
            assert each.values.tobytes() == wanted.tobytes()
        assert up.alive
