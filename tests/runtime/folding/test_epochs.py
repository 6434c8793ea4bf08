"""The services make several passes over the data, restarted in any of them, and fold no event of the wrong one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streaminfer.bus.protocol import Output, Partition
from streaminfer.runtime import names
from streaminfer.runtime.api.fit import fit
from streaminfer.runtime.folding import quiet
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.supervising.idle import IdleMark
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.increment import Pane
from streaminfer.variational.methods import memoized
from streaminfer.wire import panes
from streaminfer.wire.panes import PanePlace
from tests.runtime.rig import Rig
from tests.variational.guarded import change
from tests.variational.tallied import tallied

METHODS = pytest.mark.parametrize("method", ["svi", "memoized"])
VALUES = [0.1, 5.0, 0.3, 4.6, 5.2, -0.2, 0.4, 5.5, 4.9, 0.0]


def mixture(method: str, epochs: int | None = 4, **inference: Any) -> Spec:
    settings = {"minibatch": 3, "linger_ms": 0, "snapshot_ms": 1, "max_staleness": 0, "epochs": epochs, **inference}
    return parse_spec(
        {
            "name": "demo",
            "data": {"partitions": 1},
            "model": {"kind": "gaussian_mixture", "fields": ["k"], "components": 2},
            "inference": {"method": method, **settings},
        }
    )


def at_rest(rig: Rig, *services: Any, rounds: int = 200) -> None:
    """Long enough for data to come to rest and several passes."""
    rig.run(*services, rounds=rounds, seconds=0.1)


@METHODS
@pytest.mark.parametrize("markers", [False, True])
def test_kills_in_every_pass_leave_no_trace(method: str, markers: bool) -> None:
    """One rig goes through; in the others a service is replaced after every few steps, without a word."""
    found = []
    for period in (None, 4, 5):
        rig = Rig(mixture(method), markers=markers)
        rig.send(*VALUES * 2)
        mark = IdleMark(rig.spec, rig.bus)
        worker, master = rig.worker("w"), rig.master()
        killed = set()
        rig.run(worker, master, rounds=2)
        for turn in range(3000):
            if period is not None and turn % period == 0:
                killed.add(rig.snapshot().frontier.epoch)
                rig.clock.advance(11.0)  # until the lease of the killed service has ended
                if turn // period % 2:
                    worker = rig.worker(f"w{turn}")
                else:
                    master = rig.master()
            rig.run(worker, master, rounds=1, seconds=0.25)
            if mark.reached(rig.snapshot()):
                break
        assert killed == (set() if period is None else {0, 1, 2, 3})
        found.append(rig.snapshot())
        assert (found[-1].frontier.epoch, found[-1].n_events, found[-1].counts.n_rejected) == (3, 2 * len(VALUES), 0)
        assert found[-1].frontier.positions == found[-1].frontier.ends == mark.ends
    for each in found[1:]:
        assert np.array_equal(each.payload.statistics, found[0].payload.statistics)
        told = (each.payload.n_steps, each.payload.n_batches, each.counts.score)
        assert told == (found[0].payload.n_steps, found[0].payload.n_batches, found[0].counts.score)


@pytest.mark.parametrize("epochs", [None, 1])
def test_one_pass_by_memoized_is_what_fit_gives_whoever_is_killed(epochs: int | None) -> None:
    spec = mixture("memoized", epochs)
    expected = fit(spec, [{"k": value} for value in VALUES * 2]).snapshot
    for period in (None, 2, 3):
        rig = Rig(spec)
        rig.send(*VALUES * 2)
        mark = IdleMark(rig.spec, rig.bus)
        worker, master = rig.worker("w"), rig.master()
        for turn in range(1, 300):
            if period is not None and turn % period == 0:
                rig.clock.advance(11.0)  # until the lease of the killed service has ended
                worker, master = (rig.worker(f"w{turn}"), master) if turn // period % 2 else (worker, rig.master())
            rig.run(worker, master, rounds=1, seconds=0.25)
            if turn > 2 and mark.reached(rig.snapshot()):
                break
        found = rig.snapshot()
        told = (found.n_events, found.counts.n_rejected, found.payload.n_batches, found.frontier.epoch)
        assert told == (2 * len(VALUES), 0, 1, 0)
        np.testing.assert_allclose(found.payload.statistics, expected.payload.statistics, rtol=1e-12, atol=1e-12)
        assert found.counts.score == pytest.approx(expected.counts.score, rel=1e-12)


@METHODS
def test_data_comes_to_rest_or_is_waited_for(method: str) -> None:
    rig = Rig(tallied(method, 2))
    worker, master = rig.worker(), rig.master()
    at_rest(rig, worker, master)
    assert (rig.snapshot().frontier.ends, rig.snapshot().frontier.epoch) == ({}, 0), "a pass over nothing is no pass"
    rig.send(*range(10))
    rig.run(worker, master, rounds=40)
    found = rig.snapshot()
    assert (found.frontier.positions, found.frontier.ends, found.frontier.epoch) == ({0: 8}, {}, 0), (
        "the last minibatch is not full"
    )
    rig.run(worker, master, rounds=90, seconds=0.1)
    rig.send(10)
    rig.run(worker, master, rounds=90, seconds=0.1)
    assert rig.snapshot().frontier.ends == {}, "there was an event less than ten seconds ago"
    rig.run(worker, master, rounds=40, seconds=0.1)
    found = rig.snapshot()
    assert (
        found.frontier.positions,
        found.frontier.ends,
        found.frontier.starts,
        found.frontier.epoch,
        found.n_events,
    ) == ({0: 11}, {0: 11}, {0: 0}, 1, 11)
    assert {(each["epoch"], each["begin"], each["end"]) for each in rig.increments()} == {
        (epoch, *span) for epoch in (0, 1) for span in [(0, 4), (4, 8), (8, 11)]
    }


@METHODS
def test_the_marks_of_until_idle_are_the_ends_at_once_and_the_last_pass_is_waited_for(method: str) -> None:
    rig = Rig(tallied(method, 3))
    worker, master = rig.worker(), rig.master()
    rig.send(*range(10))
    mark, began = IdleMark(rig.spec, rig.bus), rig.clock()
    idle = []
    for _ in range(60):
        rig.run(worker, master, rounds=1, seconds=quiet.INTERVAL / 3)
        found = rig.snapshot()
        idle.append((found.frontier.epoch, found.frontier.positions[0], mark.reached(found)))
    assert rig.clock() - began < quiet.QUIET
    assert idle[-1] == (2, 10, True)
    assert all(reached == ((epoch, at) == (2, 10)) for epoch, at, reached in idle)
    rig.send(*range(10, 13))
    again = IdleMark(rig.spec, rig.bus)
    rig.run(worker, master, rounds=30, seconds=0.1)
    found = rig.snapshot()
    assert again.reached(found)
    told = (found.frontier.epoch, found.frontier.positions, found.frontier.ends, found.n_events)
    assert told == (2, {0: 13}, {0: 10}, 13)
    assert [each["epoch"] for each in rig.increments() if each["begin"] >= 10] == [2, 2]
    if method == "memoized":
        assert found.payload.statistics[0] == sum(range(13))


@METHODS
def test_events_that_come_during_a_pass_are_seen_once_in_the_last(method: str) -> None:
    rig = Rig(tallied(method, 3))
    worker, master = rig.worker(), rig.master()
    rig.send(*range(8))
    while not (master.ready and rig.snapshot().frontier.ends):
        rig.run(worker, master, rounds=1, seconds=0.1)
    rig.send(*range(8, 16), b"no event")
    seen = []
    for _ in range(80):
        rig.run(worker, master, rounds=1, seconds=0.1)
        seen.append(rig.snapshot())
    assert all(each.frontier.positions[0] <= 8 for each in seen if each.frontier.epoch < 2)
    assert (seen[-1].frontier.epoch, seen[-1].frontier.positions, seen[-1].n_events) == (2, {0: 16}, 16)
    late = [(each["epoch"], each["begin"]) for each in rig.increments() if each["begin"] >= 8]
    assert late == [(2, 8), (2, 12)]


@METHODS
def test_bad_events_are_buried_and_counted_once(method: str) -> None:
    rig = Rig(tallied(method, 3))
    rig.send(1, b"no event", 2, 3, b"none", b"none", b"none", b"none")
    at_rest(rig, rig.worker(), rig.master())
    found = rig.snapshot()
    assert (found.frontier.epoch, found.n_events, found.counts.n_dead_lettered) == (2, 3, 5)
    assert len(rig.records("dead-letters")) == 5


@METHODS
def test_retention_in_a_later_pass_is_passed_over_and_is_no_loss(method: str) -> None:
    rig = Rig(tallied(method, 3))
    worker, master = rig.worker(), rig.master()
    rig.send(*[1] * 10)
    while not (master.ready and rig.snapshot().frontier.epoch == 1):
        rig.run(worker, master, rounds=1, seconds=0.1)
    worker.close()
    rig.broker.delete_before(Partition(rig.topic("events"), 0), 5)
    at_rest(rig, rig.worker("b"), master)
    found = rig.snapshot()
    assert (found.frontier.epoch, found.frontier.positions, found.n_events, found.counts.n_lost) == (2, {0: 10}, 10, 0)
    spans = {(each["begin"], each["end"]) for each in rig.increments() if each["epoch"] == 2}
    if method == "memoized":
        assert found.payload.statistics[0] == 10, "what was lost counts as it did"
        assert spans == {(0, 8), (8, 10)}
    else:
        assert spans == {(0, 5), (5, 8), (8, 10)}


@METHODS
@pytest.mark.parametrize("start", [10, 14])
def test_retention_beyond_the_ends_is_a_loss_of_what_was_never_read(method: str, start: int) -> None:
    rig = Rig(tallied(method, 3))
    worker, master = rig.worker(), rig.master()
    rig.send(*[1] * 10)
    while not (master.ready and rig.snapshot().frontier.epoch == 1):
        rig.run(worker, master, rounds=1, seconds=0.1)
    worker.close()
    rig.send(*[1] * 6)
    rig.broker.delete_before(Partition(rig.topic("events"), 0), start)
    at_rest(rig, rig.worker("b"), master)
    found = rig.snapshot()
    told = (found.frontier.epoch, found.frontier.positions, found.n_events, found.counts.n_lost)
    assert told == (2, {0: 16}, 26 - start, start - 10)
    if method == "memoized":
        assert found.payload.statistics[0] == 26 - start


@METHODS
def test_partitions_that_are_new_in_a_later_pass_are_seen_once_in_the_last(method: str) -> None:
    rig = Rig(tallied(method, 3, max_staleness=0))
    worker, master = rig.worker(), rig.master()
    rig.send(*[1] * 10)
    while not (master.ready and rig.snapshot().frontier.epoch == 1):
        rig.run(worker, master, rounds=1, seconds=0.1)
    names.create_topics(tallied(method, 3, 2), rig.bus)
    rig.send(*[100] * 8, partition=1)
    at_rest(rig, worker, master, rounds=300)
    found = rig.snapshot()
    assert (found.frontier.epoch, found.frontier.positions, found.n_events) == (2, {0: 10, 1: 8}, 18)
    assert (found.frontier.starts, found.frontier.ends) == ({0: 0, 1: 0}, {0: 10, 1: 0})
    assert {each["epoch"] for each in rig.increments() if each["partition"] == 1} == {2}
    if method == "memoized":
        assert found.payload.statistics[0] == 810


def test_an_increment_of_a_pass_that_will_never_be_is_a_dead_letter() -> None:
    rig = Rig(tallied("svi", 3))
    master = rig.master()
    rig.run(master)
    fields = {"topic": rig.topic("events"), "fingerprint": rig.spec.fingerprint, "statistics": np.ones(3)}
    rig.publish(change(1.0, epoch=2, **fields))
    rig.publish(change(1.0, epoch=3, **fields))
    rig.run(master)
    assert (rig.outcome("ahead"), rig.outcome("bad-value")) == (1, 1)
    (letter,) = rig.records("dead-letters")
    assert "epoch must be below 3 (got 3)" in str(dict(letter.headers))


def filled() -> Rig:
    """Two passes over three batches, and no service running."""
    rig = Rig(tallied("memoized", 2))
    rig.send(*(2**i for i in range(10)))
    worker, master = rig.worker(), rig.master()
    at_rest(rig, worker, master)
    worker.close()
    master.close()
    return rig


def _publish(rig: Rig, key: bytes, value: bytes | None) -> None:
    rig.bus.publish([Output(rig.topic("statistics"), value, key, 0)])


def _stored(rig: Rig, partition: int, begin: int, n_events: int = 4, total: float = 15.0, version: int = 1) -> None:
    pane = Pane(n_events, np.array([total, float(n_events), 0.0]))
    for key, data in panes.encode(PanePlace(partition, begin), pane, rig.spec.fingerprint, version, 1 << 20):
        _publish(rig, key, data)


HARMS: list[tuple[Callable[[Rig], None], str | None]] = [
    (lambda rig: _publish(rig, b"0/4/0", None), "there are 2 with 6 events and the snapshot says 3 with 10"),
    (lambda rig: _publish(rig, b"0/0/0", None), r"those of partition 0 are not of \[0, 10\)"),
    (lambda rig: _stored(rig, 0, 2, 0, 0.0), None),
    (lambda rig: _stored(rig, 0, 12), None),
    (lambda rig: _stored(rig, 3, 0), None),
    (lambda rig: _stored(rig, 0, 4, 3), "there are 2 with 6 events and the snapshot says 3 with 10"),
    (lambda rig: _stored(rig, 0, 4, version=10**6), "there are 2 with 6 events and the snapshot says 3 with 10"),
    (lambda rig: _stored(rig, 0, 4, total=-1.0), "there are 2 with 6 events and the snapshot says 3 with 10"),
    (lambda rig: _publish(rig, b"0/4/0", b"junk"), "there are 2 with 6 events and the snapshot says 3 with 10"),
    (lambda rig: _stored(rig, 0, 4, total=16.0, version=rig.snapshot().version), "they sum to other statistics"),
]
"""What another program writes, and what is wrong once compaction has left nothing else."""
NUMBERED = pytest.mark.parametrize(("harm", "text"), HARMS, ids=range(len(HARMS)))


@NUMBERED
def test_batches_that_are_not_the_snapshots_are_stepped_over(
    harm: Callable[[Rig], None], text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    rig = filled()
    harm(rig)
    worker, master = rig.worker("b"), rig.master()
    at_rest(rig, worker, master, rounds=100)
    found = rig.snapshot()
    told = (found.frontier.epoch, found.n_events, found.payload.n_batches, found.payload.statistics[0])
    assert told == (1, 10, 3, 1023.0)
    assert "skipped demo.statistics-0" in caplog.text
    master.close()
    for topic in ("statistics", "posterior"):
        rig.broker.compact(rig.topic(topic))
    caplog.clear()
    rig.send(1024)
    IdleMark(rig.spec, rig.bus)
    at_rest(rig, worker, rig.master(), rounds=60)
    assert rig.snapshot().payload.statistics[0] == 2047
    assert "skipped" not in caplog.text, "once is enough"


@NUMBERED
def test_batches_that_are_gone_for_good_name_the_remedy(harm: Callable[[Rig], None], text: str | None) -> None:
    rig = filled()
    harm(rig)
    for topic in ("statistics", "posterior"):
        rig.broker.compact(rig.topic(topic))
    if text is None:
        rig.run(rig.master(), rounds=5)
        assert rig.snapshot().payload.statistics[0] == 1023
        return
    with pytest.raises(Fatal, match=text) as caught:
        rig.run(rig.master(), rounds=3)
    assert "demo.statistics-0: the batches on it are not those of the posterior's version" in str(caught.value)
    assert "`streaminfer repair SPEC` shows which records block it" in str(caught.value)


def test_only_changed_batches_are_written_and_compaction_leaves_one_of_each() -> None:
    rig = filled()
    keys = [record.key for record in rig.records("statistics")]
    assert sorted(keys) == [b"0/0/0", b"0/0/0", b"0/4/0", b"0/4/0", b"0/8/0", b"0/8/0"]
    rig.broker.compact(rig.topic("statistics"))
    assert len(rig.records("statistics")) == 3
    rig.send(1024)
    IdleMark(rig.spec, rig.bus)
    at_rest(rig, rig.worker("b"), rig.master(), rounds=30)
    assert rig.snapshot().payload.statistics[0] == 2047
    assert [record.key for record in rig.records("statistics")][3:] == [b"0/10/0"]


def test_more_batches_than_there_may_be_stop_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memoized, "MOST_BATCHES", 2)
    rig = Rig(tallied("memoized", 2))
    rig.send(*[1] * 12)
    with pytest.raises(Fatal, match=r"demo.events: there are more than 2 batches to visit again"):
        at_rest(rig, rig.worker(), rig.master())


def test_one_pass_of_memoized_has_one_batch_however_much_there_is() -> None:
    rig = Rig(tallied("memoized", 1, 2))
    rig.send(*[1] * 20)
    rig.send(*[10] * 8, partition=1)
    at_rest(rig, rig.worker(), rig.master())
    found = rig.snapshot()
    told = (found.n_events, found.payload.n_batches, found.payload.statistics[0], found.frontier.ends)
    assert told == (28, 2, 100.0, {})
    rig.run(rig.master(), rounds=3)


@METHODS
def test_a_mark_before_the_ends_is_not_where_a_batch_ends(method: str) -> None:
    """Another program went on producing after `up --until-idle` had looked at the ends."""
    rig = Rig(tallied(method, 2))
    worker, master = rig.worker(), rig.master()
    rig.send(*range(6))
    mark = IdleMark(rig.spec, rig.bus)
    rig.send(*range(6, 9))
    at_rest(rig, worker, master)
    found = rig.snapshot()
    told = (found.frontier.ends, found.frontier.epoch, found.frontier.positions, found.counts.n_dropped)
    assert told == ({0: 9}, 1, {0: 9}, 0)
    assert mark.reached(found)


@METHODS
def test_less_than_a_minibatch_comes_to_rest_too(method: str) -> None:
    rig = Rig(tallied(method, 2))
    worker, master = rig.worker(), rig.master()
    rig.send(1, 2, 3)
    at_rest(rig, worker, master)
    found = rig.snapshot()
    told = (found.frontier.ends, found.frontier.epoch, found.frontier.positions, found.n_events)
    assert told == ({0: 3}, 1, {0: 3}, 3)
