"""The cases of HTTP: a posterior, a key and a prediction while events stream in, beside bare Starlette; the page."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import ours
from benchmarks.first_paint import Page
from benchmarks.http_load import Load
from benchmarks.measure import Aim, Case, Ratio, Samples
from benchmarks.ours import Ours
from benchmarks.processes import Failed, output, running
from benchmarks.workload import Workload
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names

POSTERIOR, PREDICT, KEY = "posterior", "predict", "key"
BARE, P99 = "{}: bare Starlette", "{}: p99"
WEIGHT, PAINT = "page", "page: first paint"
KEYS = 10_000
KEYED = """
name: {}
data: {{partitions: 4}}
model: {{kind: poisson, field: k}}
key: city
"""


def case(letter: str, folder: Path, url: str, rate: int, seconds: float) -> Case:
    """Requests a second and p99, each beside a bare answer of the same bytes at the same time."""
    asked = (POSTERIOR, PREDICT, KEY)
    return Case(
        letter,
        f"HTTP, embedded: requests while {rate:,} events/s stream in",
        "requests/s",
        {"streaminfer": lambda: measure(folder, url, rate, seconds)},
        [Ratio(f"{name} of bare Starlette", name, BARE.format(name)) for name in asked],
        {
            **{name: Aim(">=", 500) for name in asked},
            **{P99.format(name): Aim("<=", 50) for name in asked},
            WEIGHT: Aim("<=", 200),
        },
        units={
            **dict.fromkeys(asked, "requests/s"),
            **{BARE.format(name): "requests/s" for name in asked},
            **{P99.format(name): "ms" for name in asked},
            WEIGHT: "kB",
            PAINT: "ms",
        },
    )


def measure(folder: Path, url: str, rate: int, seconds: float) -> Samples:
    single = ours.prepare(folder, url, Workload("avro", 1), {}, own=True)
    row = json.dumps({"rows": [dict.fromkeys(Workload("avro", 1).features, 0.5)]})
    feeder = ["-m", "benchmarks.latency", url, names.data_topic(single.spec), str(rate), str(6 * seconds + 20)]
    one = f"/v1/posteriors/{single.spec.name}"
    found = _measured(folder, single, feeder, {POSTERIOR: (one, ""), PREDICT: (f"{one}/predict", row)}, seconds)
    keyed = ours.written(folder, url, KEYED.format)
    feeder = ["-m", "benchmarks.http_cases", url, names.data_topic(keyed.spec), str(rate), str(4 * seconds + 20)]
    path = f"/v1/posteriors/{keyed.spec.name}/keys/{KEYS // 2}"
    return {**_measured(folder, keyed, feeder, {KEY: (path, "")}, seconds), **found}


def _measured(
    folder: Path, mine: Ours, feeder: list[str], asked: dict[str, tuple[str, str]], seconds: float
) -> Samples:
    """Every request of a spec, and the bare answer to it, one after the other while events come."""
    port, found = ours.free_port(), dict[str, float]()
    with ExitStack() as stack:
        with open_bus(mine.url) as bus:
            names.create_topics(mine.spec, bus)
        ours.start(stack, mine, 4, workers=1)
        arguments = ["monitor", str(mine.path), "--bus", mine.url, "--http", f"127.0.0.1:{port}"]
        stack.enter_context(running(["-m", "streaminfer", "run", *arguments]))
        stack.enter_context(running(feeder))
        for name, (path, body) in asked.items():
            answer = _wait(partial(_answer, port, path, body))
            load = _load(port, path, body, seconds)
            found |= {name: load.rate, P99.format(name): load.p99}
            found[BARE.format(name)] = _bare(folder, answer, path, body, seconds).rate
        with running(["-m", "benchmarks.first_paint", f"http://127.0.0.1:{port}/"]) as visitor:
            page = Page(*json.loads(output(visitor)))
    return {**found, WEIGHT: page.bytes / 1000, PAINT: page.paint_ms}


def _bare(folder: Path, answer: bytes, path: str, body: str, seconds: float) -> Load:
    file, port = folder / "answer.json", ours.free_port()
    file.write_bytes(answer)
    with running(["-m", "benchmarks.contenders.bare_starlette", str(file), str(port)]):
        _wait(partial(_answer, port, path, body))
        return _load(port, path, body, seconds)


def _load(port: int, path: str, body: str, seconds: float) -> Load:
    with running(["-m", "benchmarks.http_load", str(port), path, body, str(seconds)]) as client:
        return Load(*json.loads(output(client)))


def _answer(port: int, path: str, body: str) -> bytes | None:
    """The bytes of an answer; None while there is none."""
    headers = {"Content-Type": "application/json"} if body else {}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body.encode() or None, headers)
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:  # noqa: S310
            return bytes(answer.read())
    except (urllib.error.URLError, OSError):
        return None


def _wait(condition: Callable[[], bytes | None]) -> bytes:
    deadline = time.monotonic() + ours.PATIENCE_S
    while (found := condition()) is None:
        if time.monotonic() > deadline:
            raise Failed("the monitor does not answer")
        time.sleep(0.2)
    return found


def feed(url: str, topic: str, rate: int, seconds: float) -> None:
    """Keyed events at a steady rate, the partitions in turn."""
    rng = np.random.default_rng(1)
    with open_bus(url) as bus:
        began, sent, turn = time.time(), 0, 0
        while time.time() - began < seconds:
            due = int((time.time() - began) * rate)
            keys = rng.integers(0, KEYS, max(0, due - sent)).tolist()
            bus.publish([Output(topic, json.dumps({"k": 1, "city": key}).encode(), partition=turn) for key in keys])
            sent, turn = due, (turn + 1) % 4
            time.sleep(0.01)


if __name__ == "__main__":
    feed(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
