"""What waits to be in a posterior, and what of it is under way or not yet due."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.measuring.judging.verdict import State
from streaminfer.runtime.monitoring.standing import state_of
from streaminfer.sampling.pooled import pooling
from streaminfer.sampling.pooled.shown import Fixed, Part, Sampled, Shown
from streaminfer.sampling.units import Span
from streaminfer.spec import Spec, parse_spec
from tests.made import new_snapshot
from tests.runtime.rig import Rig, poisson


def state(rig: Rig, positions: dict[int, int], **changes: Any) -> State:
    fields: dict[str, Any] = {"fingerprint": rig.spec.fingerprint, "version": 3, "n_events": 10}
    statistics = rig.spec.model.empty() if rig.spec.sampling is None else np.zeros(pooling.statistics_size(1))
    found = new_snapshot(**{**fields, "statistics": statistics, "positions": positions, **changes})
    return state_of(rig.spec, rig.bus, found, ["master-0"], round(rig.clock() * 1000))


def test_without_a_snapshot_nothing_is_known_but_who_is_silent() -> None:
    rig = Rig(poisson())
    assert state_of(rig.spec, rig.bus, None, ["master-0"], 0) == State(silent=("master-0",))


def test_the_oldest_event_that_waits_says_how_long() -> None:
    rig = Rig(poisson(2))
    for partition in (0, 1):
        rig.send(1, partition=partition)
        rig.clock.advance(7)
    assert state(rig, {0: 1, 1: 1}).waiting_seconds == 0
    assert state(rig, {0: 1, 1: 0}).waiting_seconds == pytest.approx(7)
    assert state(rig, {0: 0, 1: 0}).waiting_seconds == pytest.approx(14)


def test_positions_without_events_do_not_wait() -> None:
    """A transaction leaves a mark behind its records."""
    rig = Rig(poisson(), markers=True)
    rig.send(1)
    rig.clock.advance(100)
    assert rig.bus.ends("demo.events")[0] == 2
    assert state(rig, {0: 1}).waiting_seconds == 0
    assert state(rig, {0: 0}).waiting_seconds == pytest.approx(100)


def test_counts_come_from_the_snapshot() -> None:
    found = state(Rig(poisson()), {0: 0}, n_dead_lettered=1, n_lost=2, n_rejected=3)
    assert (found.version, found.n_events, found.silent) == (3, 10, ("master-0",))
    assert (found.n_dead_lettered, found.n_lost, found.n_rejected) == (1, 2, 3)
    assert (found.exactness, found.keyed, found.mixture, found.alarm_at) == ("exact", False, False, -1)


def _sampler(segment: dict[str, float]) -> Spec:
    inference = {"method": "mh", "chains": 2, "segment": segment}
    model = {"kind": "poisson", "field": "k"}
    return parse_spec({"name": "demo", "data": {"partitions": 1}, "model": model, "inference": inference})


def _shown(rig: Rig, n: int, number: int = 0, **changes: Any) -> Sampled:
    fixed = Fixed(0, number, (Span(0, 0, n),), round(rig.clock() * 1000))
    fields: dict[str, Any] = {"segments": (fixed,), "segment": 0, "complete": True, "n_draws": 1000}
    parts = (Part(0, 0, n, 1000, 500.0),)
    return Sampled(np.ones((4, 1)), Shown(**{**fields, "subposteriors": parts, "acceptance": 0.4, **changes}))


@pytest.mark.parametrize(
    ("changes", "under_way"), [({}, False), ({"complete": False}, True), ({"number": 1}, True)], ids=str
)
def test_draws_of_the_newest_segment_are_under_way(changes: dict[str, Any], under_way: bool) -> None:
    rig = Rig(_sampler({"growth": 1.5}))
    rig.send(*[1] * 4)
    assert state(rig, {0: 4}, sampled=_shown(rig, 4, **changes)).under_way is under_way


@pytest.mark.parametrize(
    ("segment", "events", "due"),
    [({"growth": 1.5}, 1, False), ({"growth": 1.5}, 2, True), ({"events": 3}, 2, False), ({"events": 3}, 3, True),
     ({"seconds": 50}, 1, True), ({"seconds": 90}, 1, False), ({"seconds": 50}, 0, False)],
    ids=str,
)  # fmt: skip
def test_waiting_events_count_once_a_segment_is_due(segment: dict[str, float], events: int, due: bool) -> None:
    rig = Rig(_sampler(segment))
    rig.send(*[1] * 4)
    sampled = _shown(rig, 4)
    rig.send(*[1] * events)
    rig.clock.advance(61)
    found = state(rig, {0: 4}, sampled=sampled)
    assert found.segment_due is due
    assert found.waiting_seconds == pytest.approx(61 if events else 0)


def test_draws_that_say_little_are_told() -> None:
    rig = Rig(_sampler({"growth": 1.5}))
    assert state(rig, {0: 0}, sampled=_shown(rig, 4)).faults == ()
    found = state(rig, {0: 0}, sampled=_shown(rig, 4, acceptance=0.0))
    assert found.exactness == "unreliable"
    assert found.faults[0].startswith("none of the proposals were accepted")
