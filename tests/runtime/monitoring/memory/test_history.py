"""The history of a posterior: bounded, thinned, and not lost with its monitor."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from streaminfer.measuring.published import Moment, Published
from streaminfer.runtime.monitoring.memory import history
from streaminfer.runtime.monitoring.memory.history import APART_MS, History, Point, published_points
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.runtime.monitoring.memory.remembering import Remembering
from streaminfer.runtime.monitoring.monitor import Monitor
from streaminfer.runtime.telemetry import MonitorMetrics
from streaminfer.wire import measurements
from tests.runtime.monitoring.nothing import Nothing
from tests.runtime.rig import Rig, poisson


def point(version: int, at: int | None = None, n_alarms: int = 0, score: float = 0.0, n: int = 0) -> Point:
    at = 1000 * version if at is None else at
    return Point(
        version, at, 10 * version, np.array([float(version)]), np.array([1.0]), score, n, n_alarms, 10 * n_alarms
    )


def test_there_are_never_more_points_than_the_most_and_the_newest_stay_dense() -> None:
    held = History(("rate",))
    for version in range(1, 10_001):
        held.add(point(version))
        assert len(held.points) <= held.most
    versions = [each.version for each in held.points]
    assert versions == sorted(set(versions))
    assert versions[-100:] == list(range(9_901, 10_001))
    assert versions[0] == 1
    assert len(versions) >= held.most // 2


def test_many_parameters_have_fewer_points() -> None:
    assert History(tuple(map(str, range(1024)))).most == 2_000_000 // 2048
    assert History().most == 2000


def test_points_that_are_close_give_way_to_the_newest() -> None:
    held = History(("rate",))
    for version in range(1, 31):
        held.add(point(version, at=version * APART_MS // 10))
    times = [each.at for each in held.points]
    assert (times[0], times[-1]) == (100, 3000)
    assert all(later - earlier >= APART_MS for earlier, later in pairwise(times[:-1]))
    held.add(point(29))
    assert held.points[-1].version == 30, "an older version is not news"


def test_scores_are_of_the_events_between_two_points() -> None:
    held = History()
    for each in (point(1, score=-10.0, n=10), point(2, score=-40.0, n=20), point(3, score=-40.0, n=20)):
        held.add(each)
    assert held.document([], 0, 100)["scores"] == [-1.0, -3.0, None]
    assert held.document([], 1, 100)["scores"] == [-3.0, None], "the same, whatever is asked for"


def test_alarms_are_marked_once_also_after_thinning() -> None:
    held = History()
    for version in range(1, 4001):
        held.add(point(version, n_alarms=(version >= 100) + (version >= 3990)))
    marks = held.document([], 0, 10)["drift"]
    assert [mark["n_events"] for mark in marks] == [10, 20]
    assert marks[1]["version"] == 3990
    assert held.document([], 3995, 10)["drift"] == [], "that was before"
    assert [mark["version"] for mark in held.document([], 3989, 10)["drift"]] == [3990], "that is the first one after"


def test_few_points_are_spread_evenly_and_end_with_the_newest() -> None:
    held = History(("rate",))
    for version in range(1, 101):
        held.add(point(version))
    found = held.document([0], 0, 5)
    assert found["versions"] == [1, 26, 50, 75, 100] or found["versions"][-1] == 100
    assert len(found["versions"]) == 5
    assert found["parameters"]["rate"]["mean"] == [float(version) for version in found["versions"]]


def test_a_point_is_read_back_as_it_was_published() -> None:
    made = Point(7, 5000, 70, np.array([1.5, np.nan, -2.0]), np.array([0.1, 0.2, np.nan]), -3.5, 70, 2, 55)
    none = np.empty(0)
    earlier = [replace(made, version=5, at=4000, means=none, sds=none), replace(made, version=6, n_events=60)]
    published = Published("f", "monitor-0", 5000, Moment(7, n_events=70), made.measurement(earlier))
    key, data = measurements.encode(published, 1 << 20)
    found = published_points(measurements.decode(key, data, "f"))
    assert [(each.version, each.at, each.n_events) for each in found] == [(5, 4000, 70), (6, 5000, 60), (7, 5000, 70)]
    for each in found:
        assert (each.score_sum, each.n_scored, each.n_alarms, each.alarm_at) == (-3.5, 70, 2, 55)
    known = [(each.means.tolist(), each.sds.tolist()) for each in found]
    assert known == [([], []), ([1.5], [0.1]), ([1.5], [0.1])], "what is not a number is not known"


def test_a_published_points_that_makes_no_sense_is_harmless() -> None:
    made = point(1).measurement()
    for rows in (np.ones((2, 2)), np.array([[-1.0, 0, 0]]), np.array([[1e18, 0, 0]])):
        found = Published(
            "f", "m", 0, Moment(1), history.Measurement("history", "good", "x", curves={"parameters": rows})
        )
        assert published_points(found)[0].means.size == 0
    assert made.check == "history"
    for rows in (
        np.ones((2, 3)),
        np.ones((4, 2)),
        np.full((3, 3), np.inf),
        np.full((3, 3), -1.0),
        np.full((3, 3), 9.0),
    ):
        curves = {"earlier_0": rows}
        found = Published("f", "m", 0, Moment(3), history.Measurement("history", "good", "x", curves=curves))
        assert [each.version for each in published_points(found)] == [3]


def monitor_of(rig: Rig, memory: Memory, name: str) -> Monitor:
    remembering = Remembering(rig.spec, rig.bus, memory, clock=rig.clock)
    metrics = MonitorMetrics(CollectorRegistry(), rig.spec.name)
    return Monitor(rig.spec, rig.bus, remembering, Nothing, metrics, name, clock=rig.clock, wall=rig.clock)


@pytest.mark.parametrize("apart", [6.0, 1.5], ids=["slow", "fast"])
@pytest.mark.parametrize("name", ["monitor-0", "monitor-1"], ids=["restarted", "another"])
def test_a_new_monitor_has_the_history_of_the_one_before(name: str, apart: float) -> None:
    """The first is killed: it says nothing at its end. Points that come faster than they are published are kept."""
    rig = Rig(poisson())
    services = (rig.worker(), rig.master())
    memory = Memory(rig.spec, "monitor-0", rig.clock)
    monitor = monitor_of(rig, memory, "monitor-0")
    for i in range(40):
        rig.send(i, i, i, i)
        rig.run(*services)
        for _ in range(3):
            monitor.step(0.0)
        rig.clock.advance(apart)
    rig.clock.advance(6.0)
    monitor.step(0.0)
    before = memory.history.document([0], 0, 2000)
    assert len(before["versions"]) >= 40
    fresh = Memory(rig.spec, name, rig.clock)
    successor = monitor_of(rig, fresh, name)
    for _ in range(5):
        successor.step(0.0)
    assert fresh.history.document([0], 0, 2000) == before


def test_without_publishing_the_history_would_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Remembering, "unpublished", lambda _self: ())
    with pytest.raises(AssertionError):
        test_a_new_monitor_has_the_history_of_the_one_before("monitor-0", 6.0)
