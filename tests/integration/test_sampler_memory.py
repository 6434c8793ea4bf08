"""A segment of a million events with fifty features: mapped and shared, not held by every sampler."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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


def write(folder: Path, url: str, method: str) -> Path:
    """A spec with four chains, and its events as columnar records."""
    features = [f"x{i}" for i in range(FEATURES)]
    path = folder / "large.yaml"
    path.write_text(json.dumps({
        "name": "large", "data": {"format": "rows", "partitions": 2},
        "model": {"kind": "logistic_regression", "features": features, "target": "t"},
        "inference": {"method": method, "chains": 4, "draws": 100_000, "warmup": 100, "thin": 10},
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


class Memory(NamedTuple):
    """Megabytes of a process: `own` is what would be free without it, `rows` what of the mapped rows is in memory."""

    own: float
    rows: float


def memory(program: Program) -> Memory:
    """By mapping, from /proc. Own is all that is private, in any mapping but that of the rows.

    The rows are mapped read-only and shared: their pages are the system's cache of a file, which it drops if it needs
    room, and which all chains of the machine have together. Linux calls such a page private as long as just one process
    has mapped it, so totals like `Private_Clean` and the USS of other tools count the cache of the file.
    """
    own = rows = 0
    of_rows = False
    for line in Path(f"/proc/{program.pid}/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        if "-" in name:  # the head of a mapping: addresses, rights, ..., path
            of_rows = ".rows" in line or ".part" in line  # while it is written the file has another name
            assert not of_rows or " r--s " in line, line
        elif name in ("Private_Clean", "Private_Dirty") and not of_rows:
            own += int(rest.split()[0])
        elif name == "Rss" and of_rows:
            rows += int(rest.split()[0])
        elif name == "Anonymous" and of_rows:
            assert rest.split()[0] == "0", "a page of the rows was copied"
    return Memory(own / 1024, rows / 1024)


def steps(url: str) -> int:
    """How many records of draws there are."""
    with open_bus(url) as bus:
        return sum(bus.ends("large.draws").values())


class Large:
    def __init__(self, folder: Path, method: str) -> None:
        self.programs, self.url = Programs(folder), f"embedded:{folder / 'bus'}"
        self.spec, self.rows = write(folder, self.url, method), folder / "scratch"
        self.programs.start("run", "master", self.spec, "--bus", self.url)

    def sampler(self) -> Program:
        return self.programs.start("run", "sampler", self.spec, "--bus", self.url)

    def drawing(self, when: str, *samplers: Program, more: int = 1) -> tuple[float, Memory]:
        """Waits for so many records of draws; seconds until then, and the most memory that a sampler had."""
        begin, before, most = time.monotonic(), steps(self.url), Memory(0, 0)
        while steps(self.url) < before + more:
            assert time.monotonic() - begin < 400
            for each in samplers:
                assert each.alive
                most = Memory(*map(max, most, memory(each)))
            time.sleep(0.1)
        took, most = time.monotonic() - begin, Memory(*map(max, most, *map(memory, samplers)))
        spent = ", ".join(f"{seconds_of(each):.1f} s" for each in samplers)
        print(f"{when}: draws after {took:.1f} s ({spent} of a core); own {most.own:.0f} MB, rows {most.rows:.0f} MB")
        return took, most


@pytest.fixture(params=["sgld", "flymc"])
def large(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Large]:
    """With gradients at the anchor by row, or with a lower bound and a bit for each row."""
    made = Large(tmp_path, request.param)
    try:
        yield made
    finally:
        made.programs.close()


def test_a_segment_is_mapped_and_shared_and_a_restart_is_quick(large: Large) -> None:
    sampler = large.sampler()
    _, most = large.drawing("at first", sampler, more=16)  # some of each chain
    assert most.own < MOST_MB
    (rows,) = large.rows.glob("*/*.rows")
    assert rows.stat().st_size >= 8 * EVENTS * FEATURES

    sampler.destroy()
    again, other = large.sampler(), large.sampler()
    kept, after = large.drawing("restarted, two processes", again, other)
    assert kept < RESTART_S
    assert after.own < MOST_MB
    wait_for(lambda: all(str(rows) in maps(each) for each in (again, other)), "both map the rows", timeout=RESTART_S)
    assert list(large.rows.glob("*/*.rows")) == [rows]

    again.destroy()
    other.destroy()
    shutil.rmtree(large.rows)  # as on another machine: the rows are read from the log
    moved = large.sampler()
    anew, last = large.drawing("restarted without the rows", moved)
    assert anew < RESTART_S
    assert last.own < MOST_MB


def seconds_of(program: Program) -> float:
    """Processor time of its main thread: unlike the clock it does not depend on what else the machine does."""
    return int(Path(f"/proc/{program.pid}/schedstat").read_text().split()[0]) / 1e9


def maps(program: Program) -> str:
    return Path(f"/proc/{program.pid}/maps").read_text()
