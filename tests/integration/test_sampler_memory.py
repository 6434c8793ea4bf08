"""A segment of a million events with fifty features: mapped and shared, not held by every sampler."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.wire.events.rows import Table, pack
from tests.faults.programs import Program, Programs, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

EVENTS, FEATURES, RECORD = 1_000_000, 50, 2_000
MOST_MB = 400
RESTART_S = 60


def write(folder: Path, url: str) -> Path:
    """A spec with four chains, and its events as columnar records."""
    features = [f"x{i}" for i in range(FEATURES)]
    path = folder / "large.yaml"
    path.write_text(json.dumps({
        "name": "large", "data": {"format": "rows", "partitions": 2},
        "model": {"kind": "logistic_regression", "features": features, "target": "t"},
        "inference": {"method": "sgld", "chains": 4, "draws": 100_000, "warmup": 100, "thin": 10},
    }))  # fmt: skip
    rng, weights = np.random.default_rng(0), np.linspace(-1, 1, FEATURES)
    with open_bus(url) as bus:
        names.create_topics(load_spec(path), bus)
        for i in range(EVENTS // RECORD):
            x = rng.normal(size=(RECORD, FEATURES))
            t = (rng.random(RECORD) < 1 / (1 + np.exp(-x @ weights))).astype(float)
            value = pack(3, Table((*features, "t"), np.column_stack([x, t])))
            bus.publish([Output("large.events", value, partition=i % 2)])
    return path


def own_mb(program: Program) -> float:
    """Megabytes of the process itself: anonymous memory.

    `Private_Dirty` is no measure of it. It counts pages of the mapped file as well, as long as only one process has
    mapped them and the system has not written them to the disk: the cache of a file, which would be there anyway.
    """
    lines = Path(f"/proc/{program.pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}["Anonymous"] / 1024


def steps(url: str) -> int:
    """How many records of draws there are."""
    with open_bus(url) as bus:
        return sum(bus.ends("large.draws").values())


class Large:
    def __init__(self, folder: Path) -> None:
        self.programs, self.url = Programs(folder), f"embedded:{folder / 'bus'}"
        self.spec, self.rows = write(folder, self.url), folder / "scratch"
        self.programs.start("run", "master", self.spec, "--bus", self.url)

    def sampler(self) -> Program:
        return self.programs.start("run", "sampler", self.spec, "--bus", self.url)


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Large]:
    made = Large(tmp_path)
    try:
        yield made
    finally:
        made.programs.close()


def test_a_segment_is_mapped_and_shared_and_a_restart_is_quick(large: Large) -> None:
    sampler, most = large.sampler(), 0.0
    deadline = time.monotonic() + 400
    while steps(large.url) < 16:  # some of each chain
        most = max(most, own_mb(sampler))
        assert sampler.alive
        assert time.monotonic() < deadline
        time.sleep(0.1)
    most = max(most, own_mb(sampler))
    assert most < MOST_MB
    (rows,) = large.rows.glob("*/*.rows")
    assert rows.stat().st_size >= 8 * EVENTS * FEATURES

    sampler.destroy()
    before, begin = steps(large.url), time.monotonic()
    again, other = large.sampler(), large.sampler()
    wait_for(lambda: steps(large.url) > before, "draws after a restart", timeout=2 * RESTART_S)
    assert time.monotonic() - begin < RESTART_S
    wait_for(lambda: all(str(rows) in maps(each) for each in (again, other)), "both map the rows", timeout=RESTART_S)
    assert list(large.rows.glob("*/*.rows")) == [rows]
    assert max(own_mb(again), own_mb(other)) < MOST_MB
    print(f"own memory: {most:.0f} MB at most, {own_mb(again):.0f} and {own_mb(other):.0f} MB after a restart")


def maps(program: Program) -> str:
    return Path(f"/proc/{program.pid}/maps").read_text()
