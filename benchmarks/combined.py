"""A combiner at work as a service: how fresh what it shows is, and how long its successor takes to be restored."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from benchmarks import ours
from benchmarks.ours import Ours
from benchmarks.processes import Failed, running
from benchmarks.sampler_task import Steps
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Partition
from streaminfer.runtime import names
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.loading.produce import publish_rows
from streaminfer.runtime.pooling.shard import SampledShard
from streaminfer.runtime.telemetry import CombinerMetrics
from streaminfer.sampling import flat
from streaminfer.sampling.units import Unit
from streaminfer.tables.draws import sampled
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.sampled.draws import Assembler

SUBPOSTERIORS, THIN = 4, 10
PATIENCE_S = 300.0


class Block(NamedTuple):
    """Draws of a chain that were written together, and when, in seconds since 1970."""

    subposterior: int
    segment: int
    end: int
    at: float


class Sight(NamedTuple):
    """A snapshot with combined draws: when it was made, and by subposterior the segment and the step it goes to."""

    at: float
    steps: dict[int, tuple[int, int]]


class Found(NamedTuple):
    """Seconds from a block of draws to the first snapshot with it: of all blocks, and of the newest in each snapshot.

    A snapshot comes when there is enough that is new, so that most blocks wait for others.
    """

    any_draw: float
    newest: float
    restore: float
    """From where a combiner owns the posterior to where it has all that is on the bus."""
    empty: float
    """The same where there are none."""


def prepare(folder: Path, url: str, task: Steps) -> Ours:
    """A posterior that nobody has begun."""
    inference = {
        "method": task.method, "chains": 1, "draws": task.steps // THIN, "thin": THIN, "warmup": 0,
        "subposteriors": SUBPOSTERIORS, "combine": "average",
    }  # fmt: skip
    data = {"partitions": SUBPOSTERIORS}
    mine = ours.written(
        folder, url, lambda name: json.dumps({"name": name, "model": task.model, "data": data, "inference": inference})
    )
    with open_bus(url) as bus:
        names.create_topics(mine.spec, bus)
    return mine


def measure(folder: Path, url: str, task: Steps) -> Found:
    """Runs all services until nothing more comes; then restores a combiner of this, and one without events."""
    mine, nothing = prepare(folder, url, task), prepare(folder, url, task)
    columns = [*task.model["features"], task.model["target"]]
    with open_bus(url) as bus:
        publish_rows(mine.spec, bus, (dict(zip(columns, row, strict=True)) for row in task.events().tolist()))
        sights = _sights(mine, bus)
        written = blocks(mine, bus)
        restore, empty = _restore(mine, bus), _restore(nothing, bus)
    every, newest = delays(written, sights)
    return Found(median(every), median(newest), restore, empty)


def _sights(mine: Ours, bus: Bus) -> list[Sight]:
    found: list[Sight] = []
    with closing(Follower(mine.spec, bus)) as follower:
        with running(["-m", "streaminfer", "up", str(mine.path), "--bus", mine.url, "--until-idle"]) as process:
            while process.poll() is None:
                found += [sight for each in follower.poll(0.2) if (sight := _sight(each)) is not None]
            if process.returncode:
                raise Failed("the services have ended badly; their messages are above")
        found += [sight for each in follower.poll(0.2) if (sight := _sight(each)) is not None]
    return found


def _sight(snapshot: Snapshot) -> Sight | None:
    shown = sampled(snapshot).shown
    if shown.combined is None:
        return None
    steps = {part.subposterior: (part.segment, part.steps[0]) for part in shown.subposteriors if part.steps}
    return Sight(snapshot.created_at / 1000, steps)


def blocks(mine: Ours, bus: Bus) -> list[Block]:
    """All blocks of draws on the bus, in the order of their chains."""
    spec, settings, found = mine.spec, mine.spec.sampling, []
    assert settings is not None
    topic = names.topic(spec, "draws")
    for number, end in sorted(bus.ends(topic).items()):
        place, unit = Partition(topic, number), Unit.numbered(number, settings)
        assembler = Assembler(spec.fingerprint, unit, flat.size(spec.target.shapes))
        with closing(bus.reader({place: bus.starts(topic)[number]})) as reader:
            while reader.position(place) < end:
                for part in reader.poll(1.0).slices:
                    for record in part.records:
                        got = assembler.add(record.key, record.value)
                        if got is not None and len(got.draws.values):
                            draws = got.draws
                            found.append(Block(unit.subposterior, draws.segment, draws.end, record.timestamp / 1000))
    return found


def delays(written: Sequence[Block], sights: Sequence[Sight]) -> tuple[list[float], list[float]]:
    """Seconds that each block waited for a snapshot with it, and those of the newest block in each snapshot.

    Blocks that no snapshot has are not counted: a newer segment came in their place.
    """
    every = []
    for block in written:
        there = (block.segment, block.end)
        seen = next((s.at for s in sights if s.steps.get(block.subposterior, (-1, 0)) >= there), None)
        if seen is not None:
            every.append(seen - block.at)
    newest = []
    for sight in sights:
        inside = [b.at for b in written if sight.steps.get(b.subposterior) == (b.segment, b.end)]
        if inside:
            newest.append(sight.at - max(inside))
    if not every or not newest:
        raise Failed(f"{len(sights)} snapshots show none of {len(written)} blocks of draws")
    return every, newest


def _restore(mine: Ours, bus: Bus) -> float:
    """In this process, so that no start of one counts: the newest snapshot is read, then all draws."""
    settings = mine.spec.sampling
    assert settings is not None
    metrics = CombinerMetrics(CollectorRegistry(), mine.spec.name)
    began = time.monotonic()
    with closing(SampledShard(mine.spec, settings, bus, time.monotonic, metrics, DECLARED)) as shard:
        while not shard.restored():
            if time.monotonic() - began > PATIENCE_S:
                raise Failed(f"the combiner is not restored after {PATIENCE_S:g} seconds")
        return time.monotonic() - began
