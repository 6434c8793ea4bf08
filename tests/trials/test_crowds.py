"""Many at once: specs on one bus, workers of one spec, and `up` twice for the same spec."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.faults.answers import MODELS, Case, poisson
from tests.faults.feeding import Feeder
from tests.faults.programs import Program, Programs, document, n_events, services, wait_for
from tests.faults.watching import Watcher

SPECS = 20
ROWS = 2000
WORKERS = 30
EVENTS = 60_000
PATIENCE_S = 400.0
"""Tens of Python processes start on two cores, which alone takes a minute."""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_twenty_specs_on_one_embedded_bus(programs: Programs) -> None:
    """All write to one file: each waits for its turn, and none takes another's events."""
    url = f"embedded:{programs.folder / 'bus'}"
    cases: dict[Path, tuple[Case, Program]] = {}
    for i in range(SPECS):
        case = list(MODELS.values())[i % len(MODELS)](ROWS, seed=i)
        spec = case.write_spec(programs.folder / f"spec-{i}.yaml", f"crowd-{i}", minibatch=50)
        data = case.write_csv(programs.folder / f"data-{i}.csv")
        cases[spec] = case, programs.start("up", spec, "--data", data, "--until-idle", "--bus", url)
    began = time.monotonic()
    for _, up in cases.values():
        assert up.process.wait(PATIENCE_S) == 0, up.err
    print(f"{SPECS} specs with {ROWS:,} events each: {time.monotonic() - began:.0f} s")
    for spec, (case, up) in cases.items():
        case.check(document(spec, url))
        assert "Traceback" not in up.err


@pytest.mark.long
@pytest.mark.timeout(900)
def test_thirty_workers_some_of_which_are_killed(programs: Programs, bus_url: str) -> None:
    case, drawn = poisson(EVENTS), random.Random(3)
    spec = case.write_spec(programs.folder / "spec.yaml", "crowd", 32, minibatch=50, snapshot_ms=50)
    data = case.write_csv(programs.folder / "data.csv")
    watcher = Watcher(programs, spec, bus_url)
    up = programs.start("up", spec, "--workers", WORKERS, "--bus", bus_url)
    wait_for(lambda: len(services(up.pid, "svb-worker")) == WORKERS, "all workers run", PATIENCE_S)
    feeder = Feeder(programs, spec, data, bus_url, rows=500, nap=0.02)
    for part in range(1, 6):
        feeder.allow(part * EVENTS // 6)
        enough = (part - 1) * EVENTS // 6
        wait_for(lambda enough=enough: n_events(spec, bus_url) > enough, "the posterior moves", PATIENCE_S)
        for pid in drawn.sample(services(up.pid, "svb-worker"), 4):
            os.kill(pid, signal.SIGKILL)
    feeder.finish()
    wait_for(lambda: n_events(spec, bus_url) >= EVENTS, "all rows are absorbed", PATIENCE_S)
    wait_for(lambda: len(services(up.pid, "svb-worker")) == WORKERS, "all workers run again", PATIENCE_S)
    assert up.end(timeout=60) == 0, up.err
    found = document(spec, bus_url)
    case.check(found)
    watcher.check(found["version"])


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_ups_of_one_spec_and_one_of_them_dies(programs: Programs, bus_url: str) -> None:
    """Their workers share the partitions, one of their masters has the posterior; what dies is taken over."""
    case = poisson(EVENTS)
    spec = case.write_spec(programs.folder / "spec.yaml", "twice", minibatch=50, snapshot_ms=50)
    watcher = Watcher(programs, spec, bus_url)
    first, second = (programs.start("up", spec, "--workers", 2, "--bus", bus_url) for _ in range(2))
    feeder = Feeder(programs, spec, case.write_csv(programs.folder / "data.csv"), bus_url, rows=250, nap=0.02)

    def absorb(rows: int) -> None:
        feeder.allow(rows)
        wait_for(lambda: n_events(spec, bus_url) >= rows - 500, f"{rows} rows are absorbed", PATIENCE_S)

    absorb(EVENTS // 4)
    for up in (first, second):
        assert up.alive, up.err
        assert " ended with exit code" not in up.err
    feeder.allow(EVENTS // 2)
    first.destroy()
    absorb(EVENTS // 2)
    third = programs.start("up", spec, "--workers", 1, "--bus", bus_url)
    absorb(3 * EVENTS // 4)
    feeder.allow(EVENTS)
    second.destroy()
    feeder.finish()
    wait_for(lambda: n_events(spec, bus_url) >= EVENTS, "all rows are absorbed", PATIENCE_S)
    assert third.end() == 0, third.err
    found = document(spec, bus_url)
    case.check(found)
    watcher.check(found["version"])
