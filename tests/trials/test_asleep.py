"""A master that is stopped for a minute at any point, also in the middle of a transaction."""

from __future__ import annotations

import os
import signal
import time

import pytest

from streaminfer.bus.protocol import BusError
from tests.faults.answers import poisson
from tests.faults.programs import Programs, children, document, n_events, services, wait_for
from tests.faults.watching import Watcher

EVENTS = 200_000
SLEEP = 60.0
RECOVERY = 60.0
"""Seconds after which the posterior moves again; the machine may be busy."""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("after", [0.0, 0.37])
def test_a_master_that_sleeps_for_a_minute(programs: Programs, bus_url: str, after: float) -> None:
    """`up` sees a living process and starts no other. A process that finds the bus locked meanwhile waits for it."""
    case = poisson(EVENTS)
    spec = case.write_spec(programs.folder / "spec.yaml", "asleep", minibatch=20, snapshot_ms=20)
    data = case.write_csv(programs.folder / "data.csv")
    watcher = Watcher(programs, spec, bus_url)
    up = programs.start("up", spec, "--workers", 2, "--data", data, "--until-idle", "--bus", bus_url)
    wait_for(lambda: n_events(spec, bus_url) > 1000, "the first rows are absorbed")
    time.sleep(after)
    (master,) = services(up.pid, "master")
    before = n_events(spec, bus_url)
    os.kill(master, signal.SIGSTOP)
    assert before < EVENTS // 2, "too many rows were absorbed before the master slept"
    time.sleep(SLEEP)
    assert up.alive, up.err
    assert sum("run monitor" not in each for each in children(up.pid).values()) == 3, up.err
    os.kill(master, signal.SIGCONT)

    def moved() -> bool:
        try:
            return n_events(spec, bus_url) > before
        except BusError:  # still locked
            return False

    wait_for(moved, "the posterior moves again", RECOVERY)
    assert up.process.wait(240) == 0, up.err
    assert "Traceback" not in up.err
    found = document(spec, bus_url)
    case.check(found)
    watcher.check(found["version"])
