"""Subscribers: the newest snapshot of every kind of posterior in a file, whole at every moment, and readiness."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from prometheus_client import CollectorRegistry

from streaminfer import parse_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Unavailable
from streaminfer.bus.recorded.framing import FileFault
from streaminfer.runtime.files.snapshot_file import SnapshotFile
from streaminfer.runtime.files.subscriber import Freshness, Subscriber
from streaminfer.runtime.service import NotYet
from streaminfer.runtime.telemetry import SubscriberMetrics
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of
from tests.golden import records
from tests.runtime.files.golden_buses import Golden, shown
from tests.runtime.rig import Rig, poisson
from tests.simulation.bus import Faults, SimulatedBus


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory: nothing here is about disks."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


class Follower:
    """A subscriber with its file, on a clock of its own."""

    def __init__(
        self, spec: Spec, bus: Bus, folder: Path, key: str | None = None, max_age_s: float | None = None
    ) -> None:
        self.registry, self.now = CollectorRegistry(), 0.0
        self.file = SnapshotFile(spec, folder, key)
        self.fresh = Freshness(self.file, lambda: self.now, max_age_s)
        metrics = SubscriberMetrics(self.registry, spec.name)
        self.service = Subscriber(spec, bus, self.file, self.fresh, metrics, lambda: self.now, key)

    def step(self, times: int = 3) -> None:
        for _ in range(times):
            self.service.step(0.0)
            self.now += 1.0


class Away(Faults):
    """A bus that may be away."""

    away = False

    def before(self, operation: str) -> None:
        if self.away:
            raise Unavailable(f"{operation}: nobody answers")


def in_file(spec: Spec, folder: Path) -> object:
    with open_bus(f"file:{folder / f'{spec.name}.snapshot'}") as bus:
        return shown(spec, bus)


@pytest.mark.parametrize("kind", records.kinds())
def test_the_file_has_what_the_bus_has(kind: str, folder: Path) -> None:
    golden = Golden(kind, folder)
    with golden.open() as bus:
        follower = Follower(golden.spec, bus, folder)
        follower.step()
        assert in_file(golden.spec, folder) == shown(golden.spec, bus)
        document = folder / "golden.json"
        assert document.exists() != kind_of(golden.spec).by_key
        if document.exists():
            assert json.loads(document.read_text())["n_events"] == shown(golden.spec, bus)["n_events"]
        golden.go_on(bus)
        follower.now += 100.0
        follower.step(10)
        assert in_file(golden.spec, folder) == shown(golden.spec, bus)
        assert not list(folder.glob(".golden.*"))


def test_a_file_of_one_key_has_that_key_alone(folder: Path) -> None:
    golden = Golden("keyed", folder)
    with golden.open() as bus:
        Follower(golden.spec, bus, folder, "city-3").step()
        (found,) = (each for each in shown(golden.spec, bus) if each["key"] == "city-3")
        assert in_file(golden.spec, folder) == [found]
        assert json.loads((folder / "golden.json").read_text())["key"] == "city-3"


def test_it_is_ready_while_its_snapshot_is_fresh(folder: Path) -> None:
    rig = Rig(poisson())
    worker, master = rig.worker(), rig.master()
    rig.send(1, 2, 3, 4)
    follower = Follower(rig.spec, rig.bus, folder, max_age_s=30.0)
    follower.now = rig.clock() - 1.0
    assert not follower.service.ready, "nothing was read"
    rig.run(worker, master)
    follower.step()
    assert follower.service.ready
    follower.now = rig.clock() + 31.0
    assert not follower.service.ready, "it is too old"
    rig.clock.advance(31.0)
    rig.send(5, 6, 7, 8)
    rig.run(worker, master)
    follower.step()
    assert follower.service.ready
    assert follower.registry.get_sample_value("streaminfer_subscriber_events", {"posterior": "demo"}) == 8


def test_without_a_limit_a_file_stays_ready_while_the_bus_is_away(folder: Path) -> None:
    rig = Rig(poisson())
    rig.send(1, 2, 3, 4)
    rig.run(rig.worker(), rig.master())
    faults = Away()
    follower = Follower(rig.spec, SimulatedBus(rig.broker, faults), folder)
    follower.step()
    before = (folder / "demo.snapshot").read_bytes()
    faults.away = True
    with pytest.raises(Unavailable):
        follower.service.step(0.0)
    assert follower.fresh()
    assert (folder / "demo.snapshot").read_bytes() == before


def test_without_a_posterior_it_waits(folder: Path) -> None:
    rig = Rig(poisson())
    follower = Follower(rig.spec, rig.bus, folder)
    follower.step()
    assert not follower.service.ready
    assert not list(folder.iterdir())
    with pytest.raises(Unavailable, match="no posterior 'other' yet"):
        Follower(parse_spec({**rig.spec.document, "name": "other"}), SimulatedBus(rig.broker), folder)


def test_the_posterior_of_another_spec_is_not_written(folder: Path) -> None:
    golden = Golden("linear_regression", folder)
    other = parse_spec({**golden.story.spec, "model": {**golden.story.spec["model"], "features": ["a"]}})
    with golden.open() as bus, pytest.raises(NotYet, match=r"model\.features"):
        Follower(other, bus, folder).step()


def test_what_a_killed_writer_left_is_removed(folder: Path) -> None:
    old, new = folder / ".demo.snapshot.abc.part", folder / ".demo.snapshot.def.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    SnapshotFile(poisson(), folder, None)
    assert sorted(folder.iterdir()) == [new], "the other may be one that is being written"


def test_a_file_is_a_bus_that_cannot_be_written(folder: Path) -> None:
    golden = Golden("linear_regression", folder)
    with golden.open() as bus:
        Follower(golden.spec, bus, folder).step()
    path = folder / "golden.snapshot"
    with open_bus(f"file:{path}") as bus:
        refused = (
            lambda: bus.publish([]),
            lambda: bus.writer("w").commit([]),
            lambda: bus.member("g", ["golden.posterior"]),
        )
        for each in refused:
            with pytest.raises(Exception, match="a file of records can only be read"):
                each()
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(FileFault, match="damaged"):
        open_bus(f"file:{path}")
