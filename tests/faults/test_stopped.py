"""A worker or a master that sleeps past its session (SIGSTOP) and wakes up again does no harm."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from streaminfer.bus.connect import open_bus
from tests.faults.answers import poisson
from tests.faults.buses import kafka_later, params_with
from tests.faults.feeding import Feeder
from tests.faults.programs import Program, Programs, document, n_events, wait_for
from tests.faults.watching import Watcher

SESSION = 10.0
"""Seconds that a silent member keeps its partitions."""
EVENTS = 12_000


class Stream:
    """Rows that flow slowly: how many are let through, on the bus, and in the posterior."""

    def __init__(self, programs: Programs, spec: Path, data: Path, url: str) -> None:
        self._spec, self._url, self._allowed = spec, url, 0
        self.feeder = Feeder(programs, spec, data, url, rows=100, nap=0.05)

    def let(self, rows: int) -> None:
        self._allowed += rows
        self.feeder.allow(self._allowed)

    def absorbs(self, rows: int) -> None:
        """Lets more rows through and waits until they are in the posterior, and with them all before."""
        self.let(rows)
        wait_for(lambda: n_events(self._spec, self._url) >= self._allowed, f"{self._allowed} rows are absorbed")

    def flows(self, seconds: float) -> bool:
        """Whether rows come to the bus within a number of seconds."""
        deadline = time.monotonic() + seconds
        with open_bus(self._url) as bus:
            before = bus.ends("stopped.events")
            while bus.ends("stopped.events") == before and time.monotonic() < deadline:
                time.sleep(0.05)
            return bus.ends("stopped.events") != before


def stop_at_work(victim: Program, stream: Stream) -> None:
    """Stops a process while rows flow. If it holds the lock of an embedded bus no other can write: then once more."""
    for _ in range(4):
        stream.let(2000)
        time.sleep(0.5)
        victim.send(signal.SIGSTOP)
        if stream.flows(3.0):
            return
        victim.send(signal.SIGCONT)
    raise AssertionError("it was stopped inside a transaction each time")


IN_EVERY_RUN = {"embedded": [("svb-worker",)], "kafka": [("master",)]}
LATER = {"embedded": [("master",)], "kafka": [("svb-worker",)]}


@pytest.mark.parametrize(("bus_url", "service"), params_with(IN_EVERY_RUN), indirect=["bus_url"])
def test_a_process_that_slept_past_its_session_loses_nothing_and_repeats_nothing(
    programs: Programs, bus_url: str, service: str
) -> None:
    sleep_past_its_session(programs, bus_url, service)


@pytest.mark.long
@pytest.mark.parametrize(("bus_url", "service"), params_with(LATER), indirect=["bus_url"])
def test_the_other_process_that_slept_past_its_session(programs: Programs, bus_url: str, service: str) -> None:
    sleep_past_its_session(programs, bus_url, service)


def sleep_past_its_session(programs: Programs, bus_url: str, service: str) -> None:
    case = poisson(EVENTS)
    spec = case.write_spec(programs.folder / "spec.yaml", "stopped", minibatch=20, snapshot_ms=20)
    watcher = Watcher(programs, spec, bus_url)
    running = {name: programs.start("run", name, spec, "--bus", bus_url) for name in ("svb-worker", "master")}
    stream = Stream(programs, spec, case.write_csv(programs.folder / "data.csv"), bus_url)
    stream.absorbs(1000)

    stop_at_work(running[service], stream)
    stopped_at = time.monotonic()
    running["successor"] = programs.start("run", service, spec, "--bus", bus_url)
    stream.absorbs(1000)
    time.sleep(max(0.0, stopped_at + SESSION + 2 - time.monotonic()))
    running[service].send(signal.SIGCONT)
    stream.absorbs(2000)

    stream.feeder.finish()
    wait_for(lambda: n_events(spec, bus_url) >= EVENTS, "all rows are absorbed")
    for name, program in running.items():
        assert program.alive, f"{name} ended: {program.err}"
        assert program.end() == 0, program.err
    found = document(spec, bus_url)
    case.check(found)
    watcher.check(found["version"])


@kafka_later
@pytest.mark.parametrize("service", ["svb-worker", "master"])
def test_a_process_whose_name_was_taken_ends_when_it_wakes_up(programs: Programs, bus_url: str, service: str) -> None:
    case = poisson(EVENTS)
    spec = case.write_spec(programs.folder / "spec.yaml", "stopped", minibatch=20, snapshot_ms=20)
    running = {
        name: programs.start("run", name, spec, "--bus", bus_url, "--instance", f"{name}-0")
        for name in ("svb-worker", "master")
    }
    stream = Stream(programs, spec, case.write_csv(programs.folder / "data.csv"), bus_url)
    stream.absorbs(1000)
    stop_at_work(running[service], stream)
    sleeper = running[service]
    running[service] = programs.start("run", service, spec, "--bus", bus_url, "--instance", f"{service}-0")
    stream.absorbs(1000)
    sleeper.send(signal.SIGCONT)
    assert sleeper.process.wait(60) == 1
    assert f"{service}-0" in sleeper.err
    assert "Traceback" not in sleeper.err

    stream.feeder.finish()
    wait_for(lambda: n_events(spec, bus_url) >= EVENTS, "all rows are absorbed")
    for program in running.values():
        assert program.end() == 0, program.err
    case.check(document(spec, bus_url))
