"""Models that need a base: how far a worker may run ahead, and what happens outside the domain."""

from __future__ import annotations

import json

import numpy as np
import pytest

from streaminfer.bus.protocol import Output, Poll
from streaminfer.runtime.learning.worker import SNAPSHOT_WAIT
from tests.made import new_increment
from tests.runtime.rig import Rig
from tests.variational.guarded import Guarded, spec_of

SETTINGS = {"minibatch": 1, "linger_ms": 0, "snapshot_ms": 1}


def _send(rig: Rig, *values: float, partition: int = 0) -> None:
    data = [json.dumps({"x": value}).encode() for value in values]
    rig.bus.publish([Output(rig.topic("events"), each, partition=partition) for each in data])


def _ahead(rig: Rig) -> int:
    """Minibatches on the increments topic beyond the newest frontier."""
    frontier = rig.snapshot().frontier.positions
    return sum(each["end"] > frontier[each["partition"]] for each in rig.increments())


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("most", [0, 1, 4])
def test_never_more_than_the_bound_ahead_and_always_on(partitions: int, most: int) -> None:
    rig = Rig(spec_of(max_staleness=most, partitions=partitions, **SETTINGS))
    for partition in range(partitions):
        _send(rig, *[1.0] * 20, partition=partition)
    master, worker = rig.master(), rig.worker()
    rig.run(master, rounds=3)
    rig.run(worker, rounds=20)
    assert len(rig.increments()) == 1, "a posterior of no events starts serially"
    furthest = 0
    for _ in range(200):
        rig.run(worker, rounds=2)
        furthest = max(furthest, _ahead(rig))
        assert furthest <= most + 1
        rig.run(master, rounds=1)
        if sum(rig.snapshot().frontier.positions.values()) == 20 * partitions:
            break
    assert furthest == most + 1
    assert rig.snapshot().n_events == 20 * partitions
    assert rig.snapshot().counts.n_dropped == 0
    versions = [each["base_version"] for each in rig.increments()]
    assert versions == sorted(versions)
    assert len(set(versions)) >= 20 * partitions / (most + 1)


def test_models_without_a_base_run_ahead_as_far_as_they_like() -> None:
    class Exact(Guarded):
        needs_base = False

    rig = Rig(spec_of(Exact(), max_staleness=0, **SETTINGS))
    _send(rig, *[1.0] * 20)
    master, worker = rig.master(), rig.worker()
    rig.run(master, rounds=3)
    rig.run(worker)
    assert [(each["begin"], each["end"]) for each in rig.increments()] == [(0, 20)]


def test_a_worker_that_waits_keeps_its_partitions_for_longer_than_a_session() -> None:
    rig = Rig(spec_of(max_staleness=0, **SETTINGS))
    _send(rig, 1.0, 1.0)
    master, worker = rig.master(), rig.worker()
    rig.run(master, rounds=3)
    rig.run(worker, rounds=30, seconds=1.0)
    assert len(rig.increments()) == 1
    rig.run(master, worker, rounds=30)
    assert rig.snapshot().n_events == 2


def _foreign(rig: Rig, value: float, begin: int, base_version: int) -> None:
    """An increment by a worker that is not here."""
    rig.publish(
        new_increment(
            fingerprint=rig.spec.fingerprint, writer="other", topic=rig.topic("events"), begin=begin, end=begin + 1,
            n_events=1, base_version=base_version, score=-1.0, statistics=np.array([value]),
        )
    )  # fmt: skip


def test_outside_the_domain_on_a_stale_base_it_is_computed_again_then_damped() -> None:
    rig = Rig(spec_of(**SETTINGS))
    master = rig.master()
    rig.run(master, rounds=3)
    first = rig.snapshot().version
    _send(rig, 1.0, -3.0)
    _foreign(rig, 1.0, 0, 0)
    rig.run(master)
    _foreign(rig, -3.0, 1, first)
    rig.run(master)
    assert rig.outcome("stale-base") == 1
    assert rig.snapshot().frontier.positions == {0: 1}
    rig.run(rig.worker(), master)
    assert rig.outcome("stale-base") == 1
    assert rig.outcome("damped") == 1
    snapshot = rig.snapshot()
    assert (snapshot.frontier.positions, snapshot.n_events, snapshot.counts.n_damped) == ({0: 2}, 2, 1)
    assert snapshot.payload.statistics.tolist() == [-0.5]


def test_the_retry_must_start_from_a_version_that_knows_of_the_drop() -> None:
    rig = Rig(spec_of(**SETTINGS))
    master = rig.master()
    rig.run(master, rounds=3)
    _foreign(rig, 1.0, 0, 0)
    rig.run(master)
    version = rig.snapshot().version
    _foreign(rig, -3.0, 1, version - 1)
    _foreign(rig, -3.0, 1, version)
    rig.run(master)
    assert rig.outcome("stale-base") == 2
    _foreign(rig, -3.0, 1, version + 1)
    rig.run(master)
    assert rig.outcome("damped") == 1


def test_what_no_damping_saves_is_visible_as_rejected() -> None:
    rig = Rig(spec_of(**SETTINGS))
    _send(rig, -5000.0, 2.0)
    rig.run(rig.master(), rig.worker(), rounds=30)
    snapshot = rig.snapshot()
    assert (snapshot.frontier.positions, snapshot.n_events, snapshot.counts.n_rejected) == ({0: 2}, 1, 1)
    assert snapshot.payload.statistics.tolist() == [2.0]
    assert rig.value("master_rejected") == 1


def test_of_several_workers_that_start_at_once_one_is_first() -> None:
    """Each learns the first minibatch of its partition from the prior; the master takes one, the others come again."""
    rig = Rig(spec_of(max_staleness=4, partitions=3, **SETTINGS))
    for partition in range(3):
        _send(rig, *[1.0] * 5, partition=partition)
    master, workers = rig.master(), [rig.worker() for _ in range(3)]
    rig.run(master, rounds=3)
    rig.run(*workers, rounds=20)
    rig.run(master, rounds=5)
    assert rig.snapshot().n_events == 1
    assert rig.snapshot().counts.n_dropped == 2
    rig.run(master, *workers, rounds=100)
    assert rig.snapshot().n_events == 15


def test_a_worker_with_more_to_cut_does_not_wait_for_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 0 one minibatch is learned from each snapshot: the rest of what was read is cut as the next one comes."""
    rig = Rig(spec_of(max_staleness=0, **SETTINGS))
    _send(rig, *[1.0] * 20)
    master, worker = rig.master(), rig.worker()
    rig.run(master, worker, rounds=5)
    waits, poll = [], worker._member.poll

    def told(timeout: float, most: int) -> Poll:
        waits.append(timeout)
        return poll(timeout, most)

    monkeypatch.setattr(worker._member, "poll", told)
    while rig.snapshot().n_events < 19:
        worker.step(3600.0)
        master.step(0.0)
        rig.clock.advance(0.01)
    assert max(waits) <= SNAPSHOT_WAIT
