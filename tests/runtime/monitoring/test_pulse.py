"""Processes beat between the steps of their services, and never depend on it."""

from __future__ import annotations

import logging
import os
import socket

import pytest
from prometheus_client import CollectorRegistry, Counter

from streaminfer.bus.protocol import Record, Unavailable
from streaminfer.runtime.monitoring.pulse import AFTER_A_FAILURE, EVERY, Beating, Pulse, counters, instance_of
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.wire import beats
from tests.contracts.bus_harness import read_all
from tests.runtime.rig import Rig, poisson
from tests.simulation.bus import Faults, SimulatedBus


class Refusing(Faults):
    """Takes no beats while it is told so."""

    def __init__(self) -> None:
        self.refuses = False
        self.tries = 0

    def before(self, operation: str) -> None:
        self.tries += operation == "publish"
        if self.refuses and operation == "publish":
            raise Unavailable("the broker is away")


class Stepping:
    """A service that does nothing, or fails."""

    ready, error, closed = True, False, False

    def step(self, timeout: float) -> None:
        if self.error:
            raise Unavailable("no")

    def reset(self) -> None: ...

    def close(self) -> None:
        self.closed = True


class Beaten:
    """A process on a simulated bus, and what it has beaten."""

    def __init__(self) -> None:
        self.rig, self.faults, self.service = Rig(poisson()), Refusing(), Stepping()
        bus = SimulatedBus(self.rig.broker, self.faults)
        pulse = Pulse(
            self.rig.spec, bus, "master", "master-0", self.rig.registry, clock=self.rig.clock, wall=self.rig.clock
        )
        self.process = Beating(self.service, pulse)

    def step(self, after: float = 0.0) -> None:
        self.rig.clock.advance(after)
        self.process.step(0.0)

    @property
    def records(self) -> list[Record]:
        return read_all(self.rig.bus, "demo.health")

    @property
    def times(self) -> list[int]:
        return [beats.decode(each.key, each.value).at for each in self.records]


def test_a_process_beats_after_its_first_step_and_every_five_seconds() -> None:
    held = Beaten()
    began = round(held.rig.clock() * 1000)
    for after in (0.0, 0.5, EVERY - 1.0, 0.5, 30.0, 1.0):
        held.step(after)
    assert held.times == [began, began + 5000, began + 35_000]
    found = beats.decode(held.records[0].key, held.records[0].value)
    assert (found.service, found.instance, found.host) == ("master", "master-0", socket.gethostname())
    assert (found.start, found.ready) == (began, True)
    assert found.counters["events"] == 0


def test_a_beat_says_whether_the_service_is_ready() -> None:
    held = Beaten()
    held.service.ready = False
    held.step()
    assert not beats.decode(held.records[0].key, held.records[0].value).ready


def test_a_failed_step_is_not_a_sign_of_life() -> None:
    held = Beaten()
    held.service.error = True
    with pytest.raises(Unavailable):
        held.step()
    assert held.records == []


def test_a_failed_beat_is_dropped_and_not_tried_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    held = Beaten()
    held.faults.refuses = True
    with caplog.at_level(logging.WARNING):
        held.step()
        for _ in range(11):
            held.step(EVERY)
    assert held.faults.tries == 1, "waiting for a bus in order to beat takes time from the work"
    assert [each.getMessage() for each in caplog.records] == ["a sign of life was not sent: the broker is away"]
    held.faults.refuses = False
    held.step(AFTER_A_FAILURE)
    assert len(held.times) == 1


def test_who_ends_on_purpose_says_so() -> None:
    held = Beaten()
    held.step()
    held.process.close()
    assert held.service.closed
    assert (held.records[-1].key, held.records[-1].value) == (b"master/master-0", None)


def test_the_end_is_not_waited_for_on_a_bus_that_is_away() -> None:
    held = Beaten()
    held.process.close()
    held.faults.refuses = True
    held.step()
    held.process.close()
    assert (held.records, held.faults.tries) == ([], 1)


def test_counters_are_those_of_the_service_by_short_names() -> None:
    registry = CollectorRegistry()
    metrics = MasterMetrics(registry, "demo")
    metrics.events.set(7)
    metrics.outcome("not-folded")
    metrics.score.set(float("nan"))
    found = counters(registry)
    assert (found["events"], found["increments_not_folded"], found["snapshots"]) == (7, 1, 0)
    assert "score_per_event" not in found, "what is not a number is not sent"
    assert not [name for name in found if "created" in name]


def test_there_are_never_more_counters_than_a_beat_takes() -> None:
    registry = CollectorRegistry()
    many = Counter("streaminfer_master_many", "", ["posterior", "kind"], registry=registry)
    for i in range(300):
        many.labels("demo", str(i)).inc()
    assert len(counters(registry)) == beats.MAX_COUNTERS


def test_a_process_without_a_name_is_named_by_its_machine() -> None:
    assert instance_of("worker-1") == "worker-1"
    assert instance_of(None) == f"{socket.gethostname()}-{os.getpid()}"
