"""Workers and masters of a keyed posterior are killed -9 while data flows; every key stays exact."""

from __future__ import annotations

import pytest

from tests.faults.buses import kafka_later, kind
from tests.faults.feeding import Feeder
from tests.faults.keyed import keyed
from tests.faults.programs import Programs
from tests.faults.test_kills import Killer

ROWS_AND_KILLS = {"embedded": (20_000, 5), "kafka": (8_000, 2)}


def play(programs: Programs, url: str, forgets: str, rows: int, kills: int) -> None:
    case = keyed("poisson", keys=12, rows=rows, forgets=forgets)
    key = {"field": "id", "shards": 2}
    spec = case.write_spec(programs.folder / "spec.yaml", "killed", key, minibatch=100, snapshot_ms=20)
    data = case.write_csv(programs.folder / "data.csv")
    feeder = Feeder(programs, spec, data, url, rows=250, nap=0.02)
    killer = Killer(programs, spec, url, feeder, seed=9)
    while min(killer.killed.values()) < kills:
        killer.round()
    feeder.finish()
    programs.run("up", spec, "--workers", 2, "--until-idle", "--bus", url)
    case.check(spec, url)


@kafka_later
def test_killed_workers_and_masters_of_a_keyed_posterior(programs: Programs, bus_url: str) -> None:
    rows, kills = ROWS_AND_KILLS[kind(bus_url)]
    play(programs, bus_url, "", rows, kills)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("forgets", ["events", "time"])
def test_killed_workers_and_masters_of_keys_that_forget(programs: Programs, bus_url: str, forgets: str) -> None:
    rows, kills = ROWS_AND_KILLS[kind(bus_url)]
    play(programs, bus_url, forgets, 2 * rows, 2 * kills)
