"""Events of a snapshot from the log: which they are, what they weigh, and what is held of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streaminfer.bus.protocol import Partition
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.models.model import conjugate
from streaminfer.models.targets import target_of
from streaminfer.runtime.monitoring.measuring import contained, gathering
from streaminfer.runtime.monitoring.measuring.gathering import Gathered, Miscounted
from streaminfer.runtime.reading import span_events
from streaminfer.runtime.service import Service
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED
from tests.runtime.rig import Rig, poisson

ANCHOR = np.array([0.7])
RULES: list[dict[str, float] | None] = [
    None,
    {"half_life_events": 7},
    {"half_life_seconds": 2},
    {"window_events": 20},
    {"window_seconds": 3},
]


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_events, "MOST_RECORDS", 5)


def flowing(forget: dict[str, float] | None, seconds: float = 0.05) -> tuple[Rig, tuple[Service, ...]]:
    """Two partitions with bad events among good ones, in the posterior."""
    rig = Rig(poisson(2, **({} if forget is None else {"forget": forget})), markers=True)
    rng = np.random.default_rng(1)
    for i in range(60):
        rig.send(b"{}" if i % 11 == 3 else int(rng.poisson(4)), partition=int(i % 3 == 0))
        rig.clock.advance(seconds * 2)
    services = rig.worker(), rig.master()
    rig.run(*services, rounds=60)
    return rig, services


def gathered(
    rig: Rig, base: Snapshot | None = None, most: int = 1000, weighing: contained.Weighing | None = None
) -> tuple[Gathered, contained.Weighing]:
    spec, snapshot = rig.spec, rig.snapshot()
    found = (
        contained.all_of(spec, snapshot, rig.bus.starts(rig.topic("events")))
        if base is None
        else contained.since(spec, snapshot, base)
    )
    weighing = weighing or contained.weighing_of(spec, snapshot)
    parts = gathering.read(spec, rig.bus, DECLARED, found, weighing)
    return gathering.gather(spec.model, target_of(spec.model), parts, weighing, most, ANCHOR), weighing


@pytest.mark.parametrize("forget", RULES, ids=str)
def test_events_weigh_as_in_the_posterior(forget: dict[str, float] | None) -> None:
    rig, _ = flowing(forget)
    found, _ = gathered(rig)
    snapshot, target = rig.snapshot(), target_of(rig.spec.model)
    assert snapshot.n_events > 45
    assert found.statistics is not None
    np.testing.assert_allclose(found.statistics, snapshot.payload.statistics, rtol=1e-12)
    np.testing.assert_allclose(found.n_effective, snapshot.n_effective, rtol=1e-12)
    weights = np.ones(found.n) if found.weights is None else found.weights
    np.testing.assert_allclose(weights.sum(), snapshot.n_effective, rtol=1e-12)
    alone = weights @ target.scores(ANCHOR, found.rows)
    np.testing.assert_allclose(found.gradient, alone, rtol=1e-11)
    assert found.whole
    assert (
        (forget is None) == (found.weights is None) or "window_events" in (forget or {}) or found.n < snapshot.n_events
    )


@pytest.mark.parametrize("forget", [RULES[1], RULES[2], RULES[4]], ids=str)
def test_events_that_all_count_alike_are_not_those_of_a_posterior_that_forgets(forget: dict[str, float]) -> None:
    rig, _ = flowing(forget)
    found, _ = gathered(rig, weighing=contained.Weighing(None))
    assert found.statistics is not None
    assert np.abs(found.statistics / rig.snapshot().payload.statistics - 1).max() > 0.1


@pytest.mark.parametrize("forget", RULES[:3], ids=str)
def test_an_older_snapshot_and_the_events_since_are_the_newer_one(forget: dict[str, float] | None) -> None:
    rig, services = flowing(forget)
    base = rig.snapshot()
    rig.send(*range(15), partition=0)
    rig.clock.advance(1.0)
    rig.send(3, 4, 1, 1, 1, 7, partition=1)
    rig.run(*services, rounds=30)
    found, weighing = gathered(rig, base)
    model = conjugate(rig.spec.model)
    assert 0 < found.n == rig.snapshot().n_events - base.n_events
    assert found.statistics is not None
    both = model.merge(weighing.aged(model, base), found.statistics)
    np.testing.assert_allclose(both, rig.snapshot().payload.statistics, rtol=1e-12)


def test_what_is_held_is_a_part_that_depends_on_positions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, _ = flowing(None)
    whole, _ = gathered(rig)
    some, _ = gathered(rig, most=12)
    assert (len(some.events), some.n, some.whole) == (12, 54, False)
    monkeypatch.setattr(span_events, "MOST_RECORDS", 100)
    np.testing.assert_array_equal(gathered(rig, most=12)[0].events, some.events)
    np.testing.assert_allclose(some.gradient, whole.gradient, rtol=1e-12)
    assert some.statistics is not None
    np.testing.assert_allclose(some.statistics, whole.statistics, rtol=1e-12)


def test_hashes_are_uniform_and_tell_events_of_one_record_apart() -> None:
    n = 100_000
    found = gathering.hashes(3, np.arange(n) // 4) / 2.0**64
    counts = np.histogram(found, bins=100, range=(0, 1))[0]
    assert len(np.unique(found)) == n
    # chi-square of 99 degrees of freedom: mean 99, sd 14.1
    assert abs(((counts - n / 100) ** 2 / (n / 100)).sum() - 99) < 5.5 * 14.1
    np.testing.assert_array_equal(gathering.hashes(3, np.arange(8) // 4), gathering.hashes(3, np.arange(n) // 4)[:8])
    assert (gathering.hashes(4, np.arange(8)) != gathering.hashes(3, np.arange(8))).all()


def test_a_log_that_lost_its_start_is_told_and_not_measured() -> None:
    rig, _ = flowing(None)
    rig.bus.delete_before(Partition(rig.topic("events"), 0), 10)
    with pytest.raises(Miscounted, match=r"The log has 4\d events where the posterior says that it contains 5\d"):
        gathered(rig)


def test_another_topic_or_pass_is_not_a_base() -> None:
    rig, _ = flowing(None)
    newest = rig.snapshot()
    other = replace(newest, frontier=replace(newest.frontier, topic_id="another"))
    with pytest.raises(Unknowable, match="another topic"):
        contained.since(rig.spec, newest, other)
