"""The broker is away for a long time: no process exits, nothing grows, and all is drained when it is back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Record
from streaminfer.wire import beats
from tests.contracts.bus_harness import read_all
from tests.faults.answers import poisson
from tests.faults.feeding import Feeder
from tests.faults.programs import Programs, children, document, n_events, open_files, resident, threads, wait_for
from tests.faults.watching import Watcher
from tests.kafka_broker import LocalBroker, local_broker

EVENTS = 6_000
RECOVERY = 30.0
"""Seconds from the broker's return until the posterior moves again."""
GROWTH = 8 << 20
"""Bytes that a process may grow by, for buffers that its first failures make; a leak at every attempt is more."""

UNCOLLECTED = 30
"""Refused connections that kafka-python leaves to the garbage collector; one for each attempt would be many more."""


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with local_broker() as started:
        yield started


def test_who_starts_before_the_broker_waits_for_it(programs: Programs, broker: LocalBroker) -> None:
    case = poisson(1000)
    url = f"kafka://{broker.address}/early"
    spec = case.write_spec(programs.folder / "spec.yaml", "early")
    data = case.write_csv(programs.folder / "data.csv")
    broker.kill()
    started = [
        programs.start("run", "svb-worker", spec, "--bus", url),
        programs.start("up", spec, "--data", data, "--until-idle", "--bus", url),
    ]
    for program in started:
        wait_for(lambda program=program: "Unable to bootstrap" in program.err, "it has tried")
    time.sleep(6)
    for program in started:
        assert program.alive
        assert program.err.count("Unable to bootstrap") == 1, "it is told once"
    broker.start()
    worker, up = started
    assert up.process.wait(120) == 0, up.err
    assert worker.end() == 0, worker.err
    case.check(document(spec, url))


def health(url: str) -> list[Record]:
    with open_bus(url) as bus:
        return read_all(bus, "outage.health")


def outlive(programs: Programs, broker: LocalBroker, seconds: float) -> None:
    case = poisson(EVENTS)
    url = f"kafka://{broker.address}/outage"
    spec = case.write_spec(programs.folder / "spec.yaml", "outage", minibatch=20, snapshot_ms=20)
    watcher = Watcher(programs, spec, url)
    up = programs.start("up", spec, "--workers", 2, "--bus", url)
    feeder = Feeder(programs, spec, case.write_csv(programs.folder / "data.csv"), url, rows=100, nap=0.02)
    feeder.allow(EVENTS // 2)
    wait_for(lambda: n_events(spec, url) > EVENTS // 4, "a quarter of the rows is absorbed")
    wait_for(
        lambda: any(beats.decode(each.key, each.value).service == "monitor" for each in health(url)), "all have begun"
    )
    pids = [up.pid, *children(up.pid)]
    busy = {pid: (open_files(pid), threads(pid)) for pid in pids}

    broker.kill()
    time.sleep(seconds / 3)
    early = {pid: resident(pid) for pid in pids}
    time.sleep(2 * seconds / 3)
    assert [up.pid, *children(up.pid)] == pids, f"a process has ended:\n{up.err}"
    for pid in pids:
        assert resident(pid) - early[pid] < GROWTH, f"{children(up.pid).get(pid, 'up')} grows"

    broker.start()
    back = time.monotonic()
    feeder.allow(EVENTS)
    before = n_events(spec, url)
    wait_for(lambda: n_events(spec, url) > before, "the posterior moves again")
    assert time.monotonic() - back < RECOVERY
    feeder.finish()
    wait_for(lambda: n_events(spec, url) >= EVENTS, "all rows are absorbed")
    assert [up.pid, *children(up.pid)] == pids, f"a process has ended:\n{up.err}"
    for pid, (files, running) in busy.items():
        assert open_files(pid) <= files + UNCOLLECTED, f"{children(up.pid).get(pid, 'up')} keeps files open"
        assert threads(pid) <= running + 1, f"{children(up.pid).get(pid, 'up')} keeps threads"
    assert up.end() == 0, up.err
    found = document(spec, url)
    case.check(found)
    watcher.check(found["version"])


@pytest.mark.timeout(300)
def test_half_a_minute_without_a_broker(programs: Programs, broker: LocalBroker) -> None:
    """Three times the ten seconds after which sessions, transactions and requests of ours have ended."""
    outlive(programs, broker, 30)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_five_minutes_without_a_broker(programs: Programs, broker: LocalBroker) -> None:
    outlive(programs, broker, 300)
