"""Workers and master are killed -9 at random moments while data flows; the posterior stays exact."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from streaminfer import load_spec
from streaminfer.runtime.names import worker_service
from tests.faults.answers import MODELS, Case, linear_regression
from tests.faults.buses import kind
from tests.faults.feeding import Feeder
from tests.faults.forgotten import by_events, by_time, last_seconds
from tests.faults.programs import Program, Programs, document, n_events, services, wait_for
from tests.faults.watching import Watcher

KILLS_OF_ONE_UP = 5
"""Then `up` itself is killed and started again, which also keeps the waits before its restarts short."""
ROWS_OF_A_KILL = 4500


class Killer:
    """Kills services of `up` at moments of its own choice, while rows that it has just let through are absorbed."""

    def __init__(self, programs: Programs, spec: Path, url: str, feeder: Feeder, seed: int) -> None:
        self._programs, self._spec, self._url, self._feeder = programs, spec, url, feeder
        self._random = random.Random(seed)
        self._allowed = 0
        self.killed = dict.fromkeys((worker_service(load_spec(spec)), "master"), 0)

    def round(self) -> None:
        """One life of `up`: a worker and the master are killed several times, then `up`."""
        up = self._programs.start("up", self._spec, "--workers", 3, "--bus", self._url)
        for _ in range(KILLS_OF_ONE_UP):
            self._let_rows_through(up)
            for service in self._random.sample(list(self.killed), 2):
                time.sleep(self._random.uniform(0.0, 0.4))
                self._kill(up, service)
        assert up.alive, up.err
        up.end(signal.SIGKILL)

    def _let_rows_through(self, up: Program) -> None:
        """Some more rows, and waits until the first of them are in the posterior."""

        def moved() -> bool:
            assert up.alive, up.err
            return n_events(self._spec, self._url) > before

        before = n_events(self._spec, self._url)
        self._allowed += ROWS_OF_A_KILL
        self._feeder.allow(self._allowed)
        wait_for(moved, "the posterior moves", interval=0.1)

    def _kill(self, up: Program, service: str) -> None:
        def runs() -> bool:
            assert up.alive, up.err
            return bool(services(up.pid, service))

        wait_for(runs, f"a {service} runs")
        os.kill(self._random.choice(services(up.pid, service)), signal.SIGKILL)
        self.killed[service] += 1


def play(programs: Programs, url: str, case: Case, kills: int, seed: int, **inference: Any) -> None:
    """Kills while rows flow, lets the rest through, waits until everything is absorbed, and compares."""
    rules = {"minibatch": 100, "snapshot_ms": 20, **inference}
    spec = case.write_spec(programs.folder / "spec.yaml", "kills", **rules)
    data = case.write_csv(programs.folder / "data.csv")
    watcher = Watcher(programs, spec, url)
    feeder = Feeder(programs, spec, data, url, rows=250, nap=0.02)
    killer = Killer(programs, spec, url, feeder, seed)
    while min(killer.killed.values()) < kills:
        killer.round()
    assert feeder.program.alive, "all rows were on the bus before the last kill"
    feeder.finish()
    programs.run("up", spec, "--workers", 2, "--until-idle", "--bus", url)
    found = document(spec, url)
    case.check(found)
    seen = watcher.check(found["version"])
    assert len(seen) > kills, "the subscriber saw little of what happened"


EVENTS_AND_KILLS = {"embedded": (30_000, 5), "kafka": (30_000, 5)}
LONGER = {"embedded": (150_000, 30), "kafka": (75_000, 15)}


def test_killed_workers_and_masters_lose_nothing_and_repeat_nothing(programs: Programs, bus_url: str) -> None:
    events, kills = EVENTS_AND_KILLS[kind(bus_url)]
    play(programs, bus_url, linear_regression(events), kills, seed=5)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_workers_and_masters_of_a_posterior_that_forgets(programs: Programs, bus_url: str) -> None:
    """The oldest row still counts a third in the end: each that were missing or there twice would be seen."""
    case, inference = by_events("linear_regression", 25_000, 4, half_life=4000)
    play(programs, bus_url, case, 5, seed=7, **inference)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_workers_and_masters_of_a_window(programs: Programs, bus_url: str) -> None:
    """Two rows of three are in the window in the end, all of them passed through it."""
    case, inference = last_seconds("linear_regression", 25_000, span=18_000)
    play(programs, bus_url, case, 5, seed=9, **inference)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_workers_and_masters_of_a_posterior_that_forgets_by_time(programs: Programs, bus_url: str) -> None:
    case, inference = by_time("gaussian", 25_000, half_life=10_000)
    play(programs, bus_url, case, 5, seed=8, **inference)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("model", MODELS)
def test_every_model_survives_several_times_as_many(programs: Programs, bus_url: str, model: str) -> None:
    events, kills = LONGER[kind(bus_url)]
    play(programs, bus_url, MODELS[model](events), kills, seed=6)
