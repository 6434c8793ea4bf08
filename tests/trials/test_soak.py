"""Ten minutes of data and kills: memory levels off, no descriptor is kept, and the posterior is exact."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.faults.answers import poisson
from tests.faults.feeding import Feeder
from tests.faults.programs import Program, Programs, document, n_events, services, wait_for
from tests.faults.watching import Watcher
from tests.kafka_broker import LocalBroker
from tests.trials.vitals import MIB, Vitals, disk

SECONDS = 600
KILL_EVERY = 6.0
"""Seconds between kills of a worker."""
KILL_MASTER_EVERY = 15.0
"""The same of the master, in the first third; the last master lives on, so that its memory can be watched."""
RATES = {"embedded": 3000, "kafka": 2000}
"""Events a second: what two cores take beside a process that starts every few seconds."""
GROWTHS = {"up": 2 * MIB, "subscriber": 2 * MIB, "worker": 8 * MIB, "master": 2 * MIB}
"""What a process may hold more of in the last third of its life than in the second; a leak is more.

A worker reads at once what has piled up, at most 10,000 records: the largest pile may come late.
"""
FILES = 10
WORKER = "svb-worker"


@contextmanager
def embedded(folder: Path) -> Iterator[tuple[str, Path]]:
    yield f"embedded:{folder / 'bus'}", folder / "bus"


@contextmanager
def kafka(folder: Path) -> Iterator[tuple[str, Path]]:
    """A broker of its own, whose disk no other test fills."""
    (folder / "broker").mkdir()
    broker = LocalBroker(folder / "broker")
    try:
        broker.start()
        yield f"kafka://{broker.address}/soak", folder / "broker"
    finally:
        broker.kill()


BUSES: dict[str, Callable[[Path], AbstractContextManager[tuple[str, Path]]]] = {"embedded": embedded, "kafka": kafka}


class Soak:
    """`up` with three workers. One is never killed, the others in turn, and the master while it is early."""

    def __init__(self, programs: Programs, spec: Path, url: str, seconds: float) -> None:
        self._random, self._seconds = random.Random(12), seconds
        self.vitals, self.kills = Vitals(), {WORKER: 0, "master": 0}
        self.follower = Watcher(programs, spec, url)
        self.up: Program = programs.start("up", spec, "--workers", 3, "--bus", url)
        wait_for(lambda: len(services(self.up.pid, WORKER)) == 3, "three workers run")
        self._spared = services(self.up.pid, WORKER)[0]
        self._due = {WORKER: KILL_EVERY, "master": KILL_MASTER_EVERY}

    def look(self) -> None:
        assert self.up.alive, self.up.err
        self.vitals.look({"up": self.up.pid, "subscriber": self.follower.pid, "worker": self._spared})
        for pid in services(self.up.pid, "master"):
            self.vitals.look({"master": pid})

    def kill_what_is_due(self, elapsed: float) -> None:
        every = {WORKER: KILL_EVERY, "master": KILL_MASTER_EVERY}
        for service, due in self._due.items():
            if elapsed < due or (service == "master" and elapsed > self._seconds / 3):
                continue
            for pid in self._random.sample([p for p in services(self.up.pid, service) if p != self._spared], 1):
                os.kill(pid, signal.SIGKILL)
                self.kills[service] += 1
            self._due[service] = elapsed + every[service]


def play(programs: Programs, url: str, folder: Path, rate: int, seconds: float) -> None:
    case = poisson(int(rate * seconds))
    spec = case.write_spec(programs.folder / "spec.yaml", "soak", minibatch=100, snapshot_ms=50)
    data = case.write_csv(programs.folder / "data.csv")
    soak = Soak(programs, spec, url, seconds)
    feeder = Feeder(programs, spec, data, url, rows=250, nap=0.0)
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < seconds:
        feeder.allow(int(rate * elapsed))
        soak.kill_what_is_due(elapsed)
        soak.look()
        time.sleep(0.2)
    absorbed, rows = n_events(spec, url), len(case.rows)
    feeder.finish()
    wait_for(lambda: n_events(spec, url) >= rows, "all rows are absorbed")
    soak.look()
    print(f"\n{rows:,} events, {absorbed:,} of them absorbed within {seconds:g} s; killed: {soak.kills}")
    print(soak.vitals.table())
    print(f"disk: {disk(folder) / rows * 1e6 / MIB:.0f} MiB for a million events")
    assert soak.up.end() == 0, soak.up.err
    found = document(spec, url)
    case.check(found)
    soak.follower.check(found["version"])
    assert min(soak.kills.values()) >= seconds / 60
    for part, growth in GROWTHS.items():
        soak.vitals.check_level(part, growth, FILES)


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 600)
@pytest.mark.parametrize("bus", BUSES)
def test_ten_minutes_with_kills(programs: Programs, bus: str) -> None:
    with BUSES[bus](programs.folder) as (url, folder):
        play(programs, url, folder, RATES[bus], SECONDS)
