"""SIGTERM ends every process soon and cleanly; children do not outlive a supervisor that was killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.faults.answers import Case, poisson
from tests.faults.buses import kafka_later
from tests.faults.feeding import Feeder
from tests.faults.programs import Program, Programs, children, document, is_running, n_events, wait_for
from tests.faults.watching import Watcher

EVENTS = 4000


@pytest.fixture
def case() -> Case:
    return poisson(EVENTS)


@pytest.fixture
def spec(case: Case, programs: Programs) -> Path:
    return case.write_spec(programs.folder / "spec.yaml", "ending", minibatch=20, snapshot_ms=20)


@pytest.fixture
def feeder(case: Case, programs: Programs, spec: Path, bus_url: str) -> Feeder:
    data = case.write_csv(programs.folder / "data.csv")
    return Feeder(programs, spec, data, bus_url, rows=50, nap=0.05)


def at_work(spec: Path, url: str, feeder: Feeder) -> None:
    """Waits until rows are absorbed while more of them are coming."""
    before = n_events(spec, url)
    feeder.allow(before + 2000)
    wait_for(lambda: n_events(spec, url) > before, "the posterior moves")


def ends_well(program: Program, number: int = signal.SIGTERM) -> None:
    asked_at = time.monotonic()
    assert program.end(number) == 0, program.err
    assert time.monotonic() - asked_at < 20  # Kubernetes waits for 30
    assert "Traceback" not in program.err


def drain(programs: Programs, spec: Path, url: str, feeder: Feeder, case: Case) -> None:
    """The rest of the rows, and the exact posterior of all."""
    feeder.finish()
    programs.run("up", spec, "--until-idle", "--bus", url)
    case.check(document(spec, url))


@kafka_later
def test_sigterm_ends_worker_and_master(
    programs: Programs, bus_url: str, spec: Path, feeder: Feeder, case: Case
) -> None:
    watcher = Watcher(programs, spec, bus_url)
    running = [programs.start("run", name, spec, "--bus", bus_url) for name in ("svb-worker", "master")]
    at_work(spec, bus_url, feeder)
    for program in running:
        ends_well(program)
    drain(programs, spec, bus_url, feeder, case)
    watcher.check(document(spec, bus_url)["version"])


@kafka_later
def test_sigterm_ends_up_and_all_its_children(
    programs: Programs, bus_url: str, spec: Path, feeder: Feeder, case: Case
) -> None:
    up = programs.start("up", spec, "--workers", 2, "--bus", bus_url)
    at_work(spec, bus_url, feeder)
    started = children(up.pid)
    assert sum("run monitor" not in each for each in started.values()) == 3, "the monitor comes later"
    ends_well(up)
    assert not any(is_running(pid) for pid in started)
    drain(programs, spec, bus_url, feeder, case)


@kafka_later
def test_children_end_by_themselves_when_up_is_killed(
    programs: Programs, bus_url: str, spec: Path, feeder: Feeder, case: Case
) -> None:
    up = programs.start("up", spec, "--workers", 2, "--bus", bus_url)
    at_work(spec, bus_url, feeder)
    started = children(up.pid)
    assert sum("run monitor" not in each for each in started.values()) == 3, "the monitor comes later"
    up.end(signal.SIGKILL)
    wait_for(lambda: not any(is_running(pid) for pid in started), "the children end", timeout=20)
    assert "Traceback" not in up.err
    drain(programs, spec, bus_url, feeder, case)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_still_loads_ends_well(programs: Programs, number: signal.Signals) -> None:
    spec = programs.folder / "spec.yaml"
    os.mkfifo(spec)  # reading it waits for a writer
    program = programs.start("run", "monitor", spec, "--bus", f"embedded:{programs.folder / 'bus'}")

    held: list[int] = []

    def reads() -> bool:
        try:
            held.append(os.open(spec, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody has it open
            return False
        return True

    wait_for(reads, "it reads its spec")
    try:
        ends_well(program, number)
    finally:
        os.close(held[0])
