"""Workers and masters of a keyed posterior are killed -9 while data flows; every key stays exact."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer import connect, load_spec
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


@kafka_later
def test_a_pooled_prior_does_not_depend_on_timing_and_kills(programs: Programs, bus_url: str) -> None:
    """The same rows twice: at once with few snapshots, and a few at a time with many, while all services are killed."""
    rows, kills = ROWS_AND_KILLS[kind(bus_url)]
    case = keyed("gaussian", keys=12, rows=rows // 4)
    data, key = case.write_csv(programs.folder / "data.csv"), {"field": "id", "shards": 2, "default": "pooled"}
    calm = case.write_spec(programs.folder / "calm.yaml", "calm", key, minibatch=500, snapshot_ms=2000)
    programs.run("up", calm, "--data", data, "--until-idle", "--bus", bus_url)
    killed = case.write_spec(programs.folder / "killed.yaml", "killed", key, minibatch=50, snapshot_ms=20)
    feeder = Feeder(programs, killed, data, bus_url, rows=100, nap=0.05)
    killer = Killer(programs, killed, bus_url, feeder, seed=3)
    while min(killer.killed.values()) < min(2, kills):
        killer.round()
    feeder.finish()
    programs.run("up", killed, "--workers", 2, "--until-idle", "--bus", bus_url)
    found = []
    for path in (calm, killed):
        with connect(bus_url) as connection:
            shots = [connection.snapshot(load_spec(path), f"never seen {i}") for i in range(8)]
            found.append([shot.posterior.natural for shot in shots if shot is not None])
    assert len({each.tobytes() for each in found[0]}) == 2, "each shard has its own"
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("forgets", ["events", "time"])
def test_killed_workers_and_masters_of_keys_that_forget(programs: Programs, bus_url: str, forgets: str) -> None:
    rows, kills = ROWS_AND_KILLS[kind(bus_url)]
    play(programs, bus_url, forgets, 2 * rows, 2 * kills)
