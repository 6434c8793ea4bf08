"""The monitor with real processes: what it tells of wrong and right posteriors, and that kills lose nothing."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.measuring.judging.verdict import Verdict, verdict
from streaminfer.measuring.published import Published
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.monitoring.notes import Notes
from streaminfer.runtime.monitoring.standing import state_of
from streaminfer.spec import Spec
from streaminfer.wire import beats, measurements
from tests.contracts.bus_harness import read_all
from tests.faults.programs import Program, Programs, children, free_port, is_running, resident, wait_for

WAIT_S = 240.0
MONITOR = {"share": 1.0, "bdmc": {"every_seconds": 1e6}}


def correlated(n: int) -> list[dict[str, Any]]:
    """Ten features that are correlated by 0.7, and a target."""
    rng = np.random.default_rng(1)
    features = np.sqrt(0.7) * rng.normal(size=(n, 1)) + np.sqrt(0.3) * rng.normal(size=(n, 10))
    margins = features @ (2.5 * rng.normal(size=10) / np.sqrt(10)) - 0.5
    ones = rng.random(n) < 1 / (1 + np.exp(-margins))
    return [
        {**{f"x{i}": v for i, v in enumerate(x)}, "y": int(y)} for x, y in zip(features.tolist(), ones, strict=True)
    ]


def written(folder: Path, name: str, document: dict[str, Any], rows: list[dict[str, Any]]) -> tuple[Path, Path]:
    spec, data = folder / f"{name}.yaml", folder / f"{name}.ndjson"
    spec.write_text(json.dumps({"name": name, "data": {"partitions": 2}, "monitor": MONITOR, **document}))
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return spec, data


def judged(spec: Spec, url: str) -> tuple[Verdict, dict[str, Published]]:
    """The verdict by what is on the bus now, and the newest measurements."""
    with open_bus(url) as bus:
        shards, notes = Shards(spec, bus), Notes(spec, bus)
        try:
            notes.catch_up()
            state = state_of(spec, bus, shards.catch_up(), [], round(1000 * time.time()))
            found = {check: each for (check, _), each in notes.measured.items()}
            return verdict(state, notes.measured.values(), spec.monitor), found
        finally:
            shards.close()
            notes.close()


@pytest.mark.parametrize(("local", "n", "expected"), [("bound", 20_000, "do_not_trust"), ("ep", 4_000, "trusted")])
def test_the_verdict_of_one_pass(programs: Programs, tmp_path: Path, local: str, n: int, expected: str) -> None:
    features = [f"x{i}" for i in range(10)]
    model = {"kind": "logistic_regression", "features": features, "target": "y", "local": local}
    path, data = written(tmp_path, "demo", {"model": model, "inference": {"minibatch": 256}}, correlated(n))
    url, spec = f"embedded:{tmp_path / 'bus'}", load_spec(path)
    up = programs.start("up", path, "--data", data, "--bus", url)

    def is_told() -> bool:
        assert up.alive, up.err
        if not (tmp_path / "bus").exists() or f"{n:,} events" not in up.out + up.err:
            return False
        found = judged(spec, url)[1]
        return {"coverage", "calibration"} <= set(found) and found["coverage"].moment.n_events == n

    wait_for(is_told, "all events are measured", WAIT_S)
    told, found = judged(spec, url)
    assert up.end(signal.SIGINT) == 0
    assert told.verdict == expected, told
    coverage = found["coverage"].measurement
    assert (coverage.target, coverage.n_data) == ("all", n)
    if expected == "do_not_trust":
        assert coverage.status == "fail"
        assert {each.question for each in told.reasons if each.status == "fail"} == {"computed_right"}


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_a_monitor_that_is_killed_again_and_again(programs: Programs, tmp_path: Path, kills: int) -> None:
    model = {"kind": "poisson", "field": "k"}
    path, data = written(tmp_path, "demo", {"model": model}, [{"k": i % 7} for i in range(500)])
    url, spec = f"embedded:{tmp_path / 'bus'}", load_spec(path)
    others = [programs.start("run", role, path, "--bus", url) for role in ("master", "svb-worker")]
    rng, orphans, before = np.random.default_rng(5), list[int](), 0

    def records() -> list[Any]:
        with open_bus(url) as bus:
            return read_all(bus, "demo.metrics")

    def started() -> Program:
        return programs.start("run", "monitor", path, "--bus", url, "--instance", "monitor-0")

    for i in range(kills):
        programs.run("produce", path, data, "--bus", url)
        monitor = started()
        if i % 2 == 0:  # some are killed while they measure, some after they have published
            wait_for(lambda at=monitor: bool(children(at.pid)), "it measures", WAIT_S)
        else:
            wait_for(lambda at=before: len(records()) > at, "it has published", WAIT_S)
        time.sleep(float(rng.uniform(0, 0.5)))
        orphans += children(monitor.pid)
        monitor.end(signal.SIGKILL)
        assert len(records()) >= before, "history stays"
        before = len(records())
    programs.run("produce", path, data, "--bus", url)
    last = started()

    def is_measured() -> bool:
        told, newest = judged(spec, url)
        return told.verdict == "trusted" and newest["coverage"].moment.n_events == 500 * (kills + 1)

    wait_for(is_measured, "the newest version is measured", WAIT_S)
    assert last.end() == 0
    assert all(each.alive for each in others), "nobody else has noticed"
    assert [each.end() for each in others] == [0, 0]
    found = [measurements.decode(each.key, each.value, spec.fingerprint) for each in records()]
    times = Counter((each.measurement.check, each.measurement.subject, each.moment.version) for each in found)
    assert set(times.values()) == {1}, times
    wait_for(lambda: not any(map(is_running, orphans)), "no child outlives its monitor", 30.0)
    with open_bus(url) as bus:
        snapshot = Shards(spec, bus).catch_up()
    assert snapshot is not None
    assert snapshot.n_events == 500 * (kills + 1)


def used(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serving(programs: Programs, folder: Path, monitor: dict[str, Any]) -> tuple[Program, Path, str, int]:
    """A monitor that serves, beside a master and a worker with 500 events, and its spec, bus and port."""
    path, data = written(
        folder, "demo", {"model": {"kind": "poisson", "field": "k"}}, [{"k": i % 7} for i in range(500)]
    )
    path.write_text(json.dumps({**json.loads(path.read_text()), "monitor": monitor}))
    url, port = f"embedded:{folder / 'bus'}", free_port()
    programs.run("produce", path, data, "--bus", url)
    for role in ("master", "svb-worker"):
        programs.start("run", role, path, "--bus", url)
    http = f"127.0.0.1:{port}"
    return programs.start("run", "monitor", path, "--bus", url, "--instance", "m-0", "--http", http), path, url, port


def published(path: Path, url: str) -> set[str]:
    return set(judged(load_spec(path), url)[1]) if Path(url.partition(":")[2]).exists() else set()


@pytest.mark.long
def test_it_answers_and_beats_while_it_anneals(programs: Programs, tmp_path: Path) -> None:
    endless = {"share": 0.5, "bdmc": {"datasets": 1000, "temperatures": 10_000}}
    monitor, path, url, port = serving(programs, tmp_path, endless)
    wait_for(lambda: {"coverage", "audit"} <= published(path, url), "only the annealing is left", WAIT_S)
    wait_for(lambda: bool(children(monitor.pid)), "it anneals", WAIT_S)
    (child,) = children(monitor.pid)
    heard, waits, began = set[int](), list[float](), used(child)
    end = time.monotonic() + 30
    while time.monotonic() < end:
        asked = time.monotonic()
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/v1/posteriors/demo")
        assert connection.getresponse().status == 200
        connection.close()
        waits.append(time.monotonic() - asked)
        with open_bus(url) as bus:
            found = [each for each in read_all(bus, "demo.health") if each.key == beats.key_of("monitor", "m-0")]
        heard |= {each.timestamp for each in found}
        time.sleep(0.5)
    assert used(child) - began > 1, "it has annealed all the time"
    assert np.median(waits) < 1, waits
    assert len(heard) >= 4, "a beat every five seconds"
    assert "evidence" not in published(path, url)
    assert monitor.end() == 0


@pytest.mark.long
def test_a_monitor_at_rest_takes_little(programs: Programs, tmp_path: Path) -> None:
    monitor, path, url, _ = serving(programs, tmp_path, {**MONITOR, "bdmc": {"datasets": 2, "temperatures": 20}})
    wait_for(lambda: {"coverage", "audit", "evidence"} <= published(path, url), "all is measured", WAIT_S)
    wait_for(lambda: not children(monitor.pid), "the child has ended", WAIT_S)
    time.sleep(5)
    began, at = used(monitor.pid), time.monotonic()
    time.sleep(60)
    share = (used(monitor.pid) - began) / (time.monotonic() - at)
    print(f"at rest: {100 * share:.2f}% of a core, {resident(monitor.pid) >> 20} MB")
    assert share < 0.02
    assert resident(monitor.pid) < 300 << 20
