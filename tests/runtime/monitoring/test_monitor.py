"""The monitor: one measures and the others follow, nothing is published twice, and the verdict is told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Output, Unavailable
from streaminfer.measuring.measurement import Measurement, Value
from streaminfer.measuring.published import Moment, Published
from streaminfer.runtime.monitoring.following import Following
from streaminfer.runtime.monitoring.monitor import JUDGE_S, Monitor
from streaminfer.runtime.monitoring.notes import Notes
from streaminfer.runtime.monitoring.pulse import SILENT_MS
from streaminfer.runtime.telemetry import MonitorMetrics
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import beats, measurements
from streaminfer.wire.beats import Beat
from tests.contracts.bus_harness import read_all
from tests.runtime.rig import Rig, poisson
from tests.simulation.bus import Faults, SimulatedBus

CHECKS = ("audit", "calibration")


class Scripted:
    """Measures every version at once, whatever was published before."""

    def __init__(self, world: World) -> None:
        self._world, self._found = world, list[Published]()
        self.known: list[Published] = []
        self.closed = False

    def see(self, snapshot: Snapshot) -> None:
        for check in CHECKS:
            found = Measurement(check, "good", "All is well.", values=self._world.values)
            moment = Moment(snapshot.version, n_events=snapshot.n_events)
            self._found.append(Published(self._world.rig.spec.fingerprint, "m", 1000, moment, found))

    def saw(self, published: Published) -> None:
        self.known.append(published)

    def poll(self) -> list[Published]:
        found, self._found = self._found, []
        return found

    def close(self) -> None:
        self.closed = True


class Broken(Faults):
    """Commits may take no effect, or take effect and fail."""

    def __init__(self) -> None:
        self.when = ""

    def before(self, operation: str) -> None:
        if self.when == "before" and operation == "commit":
            raise Unavailable("not done")

    def after(self, operation: str) -> None:
        if self.when == "after" and operation == "commit":
            raise Unavailable("done, but who knows")


class World:
    """A posterior that moves, and monitors that come and go."""

    def __init__(self) -> None:
        self.rig = Rig(poisson())
        self.services = (self.rig.worker(), self.rig.master())
        self.values: tuple[Value, ...] = ()
        self.made: list[Scripted] = []
        self.registry = CollectorRegistry()
        self.faults = Broken()

    def monitor(self, name: str = "monitor-0") -> Monitor:
        self.registry, self.faults = CollectorRegistry(), Broken()
        bus = SimulatedBus(self.rig.broker, self.faults)
        metrics = MonitorMetrics(self.registry, "demo")
        return Monitor(
            self.rig.spec, bus, Following(self.rig.spec, bus), self._measuring, metrics, name, clock=self.rig.clock,
            wall=self.rig.clock,
        )  # fmt: skip

    def _measuring(self) -> Scripted:
        self.made.append(Scripted(self))
        return self.made[-1]

    def events(self, n: int = 4) -> None:
        self.rig.send(*[1] * n)
        self.rig.run(*self.services)

    def run(self, *monitors: Monitor, rounds: int = 4, seconds: float = 1.0) -> None:
        self.rig.run(*monitors, rounds=rounds, seconds=seconds)

    @property
    def published(self) -> list[tuple[str, int]]:
        found = [measurements.decode(r.key, r.value, self.rig.spec.fingerprint) for r in self.records]
        return [(each.measurement.check, each.moment.version) for each in found]

    @property
    def records(self) -> list[Any]:
        return read_all(self.rig.bus, "demo.metrics")

    def gauge(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"streaminfer_monitor_{name}", {"posterior": "demo", **labels})

    def beat(self, service: str, instance: str) -> None:
        now = round(self.rig.clock() * 1000)
        key, data = beats.encode(Beat(service, instance, now, "h", True, {}, now))
        self.rig.bus.publish([Output("demo.health", data, key)])


@pytest.fixture
def world() -> World:
    made = World()
    made.events()
    return made


def test_every_version_is_measured_and_published_once(world: World) -> None:
    monitor = world.monitor()
    world.run(monitor)
    first = list(world.published)
    assert {check for check, _ in first} == set(CHECKS)
    world.run(monitor)
    assert world.published == first
    world.events()
    world.run(monitor)
    assert max(Counter(world.published).values()) == 1
    assert len(world.published) > len(first)
    assert monitor.ready
    assert world.gauge("measures") == 1
    assert [record.key for record in world.records[:2]] == [b"audit/posterior", b"calibration/posterior"]


def test_one_measures_the_others_follow_and_take_over(world: World) -> None:
    one, other = world.monitor("monitor-0"), world.monitor("monitor-1")
    world.run(one, other)
    assert len(world.made) == 1
    before = list(world.published)
    world.made[0].known.clear()
    one.close()
    assert world.made[0].closed
    world.run(other)
    assert len(world.made) == 2
    assert [each.measurement.check for each in world.made[1].known[:2]] == list(CHECKS), "it reads first what there is"
    assert world.published == before, "the version was measured"
    world.events()
    world.run(other)
    assert max(Counter(world.published).values()) == 1
    assert len(world.published) > len(before)


def test_killed_twenty_times_nothing_is_published_twice_and_nothing_is_lost(world: World) -> None:
    seen: list[tuple[str, int]] = []
    for _ in range(20):
        monitor = world.monitor()  # its predecessor never closed anything
        world.run(monitor, rounds=6)
        assert world.published[: len(seen)] == seen
        seen = list(world.published)
        world.events()
    assert max(Counter(seen).values()) == 1
    assert len({version for _, version in seen}) == 20


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_of_which_nobody_knows_whether_it_took_effect(world: World, when: str) -> None:
    monitor = world.monitor()
    world.run(monitor, rounds=2)
    world.events()
    world.faults.when = when
    with pytest.raises(Unavailable):
        world.run(monitor)
    world.faults.when = ""
    monitor.reset()
    world.run(monitor)
    assert max(Counter(world.published).values()) == 1
    assert {version for _, version in world.published} >= {monitor._memory.snapshot.version}  # type: ignore[union-attr]


def test_a_monitor_that_lost_the_partition_publishes_nothing(world: World) -> None:
    """It was stopped for longer than its session, and does not know."""
    asleep, awake = world.monitor("monitor-0"), world.monitor("monitor-1")
    world.run(asleep, rounds=3)
    world.rig.clock.advance(60)
    world.run(awake, rounds=6)
    world.events()
    world.run(awake)
    before = list(world.published)
    world.run(asleep, rounds=2)
    assert world.published == before
    assert world.made[0].closed


def test_what_cannot_be_written_is_published_as_unknown(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.values = (Value("difference", "", float("nan")),)
    world.run(world.monitor())
    record = world.records[0]
    found = measurements.decode(record.key, record.value, world.rig.spec.fingerprint).measurement
    assert found.status == "unknown"
    assert found.sentence.startswith("What was measured cannot be stored: values must have a value that is finite")
    assert "the check audit cannot be published" in caplog.text


def test_the_verdict_is_told(world: World) -> None:
    monitor = world.monitor()
    world.run(monitor, rounds=8)
    assert monitor.verdict is not None
    assert monitor.verdict.verdict == "trusted"
    assert (world.gauge("verdict"), world.gauge("check_status", check="audit")) == (0, 0)
    assert world.gauge("check_timestamp_seconds", check="audit") == 1.0
    world.beat("master", "master-0")
    world.beat("svb-worker", "worker-0")
    world.rig.clock.advance(SILENT_MS / 1000 + 1)
    world.beat("svb-worker", "worker-0")
    world.run(monitor, rounds=2)
    assert monitor.verdict.verdict == "watch"
    assert monitor.verdict.of("fresh")[0].sentence == "Not heard of for long: master-0."
    assert world.gauge("verdict") == 1
    silent = [world.gauge("service_silent", service=each) for each in ("master", "svb-worker")]
    assert silent == [1, 0]


def test_events_that_wait_too_long_are_told(world: World) -> None:
    monitor = world.monitor()
    world.run(monitor)
    world.rig.send(1, 2, 3, 4)
    world.rig.clock.advance(61)
    world.run(monitor, seconds=JUDGE_S)
    assert monitor.verdict is not None
    assert "Events have waited for " in monitor.verdict.of("fresh")[0].sentence
    assert (world.gauge("waiting_seconds") or 0) >= 61


def test_junk_is_ignored_and_counted(world: World) -> None:
    monitor = world.monitor()
    world.run(monitor)
    for topic in ("demo.metrics", "demo.health"):
        world.rig.bus.publish([Output(topic, b"junk", b"a/b"), Output(topic, b"", None)])
    world.run(monitor, rounds=8)
    assert world.gauge("ignored_records") == 4
    assert monitor.ready


def test_a_process_that_ended_on_purpose_is_not_silent(world: World) -> None:
    world.beat("master", "master-0")
    world.rig.bus.publish([Output("demo.health", None, b"master/master-0")])
    notes = Notes(world.rig.spec, world.rig.bus)
    notes.catch_up()
    assert (notes.heard, notes.n_ignored) == ({}, 0)


def test_a_process_is_silent_for_a_while_and_then_forgotten(world: World) -> None:
    world.beat("master", "master-0")
    notes = Notes(world.rig.spec, world.rig.bus)
    notes.catch_up()
    (heard,) = notes.heard.values()
    assert [len(notes.silent(heard.at + after)) for after in (0, SILENT_MS, SILENT_MS + 1, 600_000, 600_001)] == [
        0,
        0,
        1,
        1,
        0,
    ]
