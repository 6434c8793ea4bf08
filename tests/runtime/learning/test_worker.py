"""The worker on a simulated bus: its start, what it publishes, and how it finds back."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.bus.protocol import Partition, Unavailable
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.runtime.learning import worker as worker_module
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.supervising.idle import IdleMark
from streaminfer.variational.increment import Increment
from tests.made import new_increment, new_snapshot
from tests.runtime.rig import Rig, poisson
from tests.simulation.bus import Faults


def _increment(rig: Rig, begin: int, end: int, total: float) -> Increment:
    return new_increment(
        fingerprint=rig.spec.fingerprint, writer="other", topic=rig.topic("events"), begin=begin, end=end,
        n_events=end - begin, statistics=np.array([total, end - begin, 0.0]),
    )  # fmt: skip


def test_events_become_increments_that_end_at_multiples() -> None:
    rig = Rig(poisson(), merges=False)
    rig.send(*range(10))
    worker, master = rig.worker("me"), rig.master()
    assert not worker.ready
    rig.run(worker, master)
    assert worker.ready
    assert master.ready
    assert rig.spans() == [(0, 4, 4), (4, 8, 4)]
    first = rig.increments()[0]
    assert first["writer"] == "me"
    assert first["topic"] == "demo.events"
    assert first["fingerprint"] == rig.spec.fingerprint
    assert rig.records("increments")[0].key == b"0"
    assert (rig.total(), rig.snapshot().n_events, rig.snapshot().frontier.positions) == (28.0, 8, {0: 8})


def test_nothing_is_read_before_there_is_a_frontier() -> None:
    rig = Rig(poisson())
    rig.send(*range(8))
    worker = rig.worker()
    rig.run(worker)
    assert rig.spans() == []
    rig.run(rig.master(), worker)
    assert rig.spans() == [(0, 8, 8)]


def test_it_starts_at_the_frontier_not_at_the_groups_offsets() -> None:
    rig = Rig(poisson())
    rig.send(*range(8))
    worker, master = rig.worker(), rig.master()
    rig.run(worker, master, rounds=20, seconds=0.2)
    group = rig.bus.committed("demo.svb-worker")
    assert group[Partition("demo.events", 0)].offset == 8
    worker.close()
    rig.send(*range(8, 16))
    rig.publish(_increment(rig, 8, 12, 38.0))
    rig.run(master)
    rig.run(rig.worker("second"), master)
    assert rig.increments()[-1]["writer"] == "second"
    assert rig.spans()[-1] == (12, 16, 4)
    assert rig.total() == sum(range(16))


def test_lingering_publishes_early() -> None:
    rig = Rig(poisson(linger_ms=50))
    worker, master = rig.worker(), rig.master()
    rig.run(worker, master)
    rig.send(1, 2, 3)
    rig.run(worker, master, rounds=4, seconds=0.01)
    assert rig.spans() == []
    rig.run(worker, master, rounds=6, seconds=0.01)
    assert rig.spans() == [(0, 3, 3)]
    rig.send(4, 5)
    rig.run(worker, master, rounds=10, seconds=0.01)
    assert rig.spans() == [(0, 3, 3), (3, 4, 1), (4, 5, 1)]


def test_markers_alone_become_an_increment_without_events() -> None:
    rig = Rig(poisson(minibatch=1), markers=True, merges=False)
    rig.send(7)
    rig.run(rig.worker(), rig.master())
    assert rig.spans() == [(0, 1, 1), (1, 2, 0)]
    assert rig.snapshot().frontier.positions == {0: 2}
    assert (rig.snapshot().counts.n_lost, rig.snapshot().n_events, rig.total()) == (0, 1, 7.0)


def test_bad_events_alone_become_an_increment_without_events_and_letters() -> None:
    rig = Rig(poisson(minibatch=2), merges=False)
    rig.send(b"{", b'{"k":-1}', 5, b"")
    rig.run(rig.worker(), rig.master())
    assert rig.spans() == [(0, 2, 0), (2, 4, 1)]
    assert [each["n_dead_lettered"] for each in rig.increments()] == [2, 1]
    assert rig.increments()[0]["score"] == 0.0
    found = list(Pending(rig.spec, rig.bus))
    assert [(letter.offset, letter.value) for letter in found] == [(0, b"{"), (1, b'{"k":-1}'), (3, b"")]
    assert found[1].reason == "k: must be a whole number from 0 to 2^53 (got -1)"
    assert (rig.snapshot().counts.n_dead_lettered, rig.snapshot().n_events) == (3, 1)


def test_letters_are_durable_before_the_increment_that_passes_them() -> None:
    class SecondPublishFails(Faults):
        published = 0

        def before(self, operation: str) -> None:
            if operation == "publish":
                self.published += 1
                if self.published == 2:
                    raise Unavailable("gone")

    rig = Rig(poisson(minibatch=1))
    rig.send(b"bad")
    master, worker = rig.master(), rig.worker(faults=SecondPublishFails())
    rig.run(master)
    with pytest.raises(Unavailable):
        rig.run(worker)
    assert len(rig.records("dead-letters")) == 1
    assert rig.spans() == []
    worker.reset()
    rig.run(worker, master)
    assert rig.spans() == [(0, 1, 0)]
    assert len(rig.records("dead-letters")) == 2
    assert len(list(Pending(rig.spec, rig.bus))) == 1


def test_it_goes_back_when_an_increment_was_dropped() -> None:
    rig = Rig(poisson(), merges=False)
    rig.send(*range(8))
    worker, master = rig.worker(), rig.master()
    rig.run(master, rounds=3)
    rig.run(worker, rounds=5)
    assert rig.spans() == [(0, 4, 4), (4, 8, 4)]
    rig.bus.delete_before(Partition(rig.topic("increments"), 0), 1)
    rig.run(master, worker, rounds=10)
    assert rig.outcome("ahead") == 1
    assert rig.value("worker_seeks_back_total") == 1
    assert rig.spans() == [(4, 8, 4), (0, 4, 4), (4, 8, 4)]
    assert (rig.total(), rig.snapshot().n_events, rig.snapshot().counts.n_dropped) == (28.0, 8, 1)


def test_it_waits_while_the_master_has_not_read_all_it_sent() -> None:
    rig = Rig(poisson(), merges=False)
    rig.send(*range(8))
    worker, master = rig.worker(), rig.master()
    rig.run(master, rounds=3)
    rig.run(worker, rounds=30)
    assert rig.value("worker_seeks_back_total") == 0
    assert rig.spans() == [(0, 4, 4), (4, 8, 4)]


def test_it_goes_forward_when_another_has_moved_the_frontier() -> None:
    rig = Rig(poisson(minibatch=8))
    worker, master = rig.worker(), rig.master()
    rig.run(master, worker)
    rig.send(*range(8))
    rig.publish(_increment(rig, 0, 8, 28.0))
    rig.run(master, rounds=3)
    rig.send(*range(8, 16))
    rig.run(worker, master)
    assert rig.value("worker_seeks_forward_total") == 1
    assert rig.spans() == [(0, 8, 8), (8, 16, 8)]
    assert rig.total() == sum(range(16))


def test_what_retention_removed_unread_is_an_explicit_loss() -> None:
    rig = Rig(poisson(), merges=False)
    rig.send(*range(6))
    master, worker = rig.master(), rig.worker()
    rig.run(master, rounds=3)
    rig.bus.delete_before(Partition(rig.topic("events"), 0), 5)
    rig.send(*range(6, 12))
    rig.run(worker, master)
    assert rig.spans() == [(0, 5, 0), (5, 8, 3), (8, 12, 4)]
    assert rig.increments()[0]["n_lost"] == 5
    assert rig.value("worker_lost_positions_total") == 5
    snapshot = rig.snapshot()
    assert (snapshot.counts.n_lost, snapshot.n_events, snapshot.frontier.positions) == (5, 7, {0: 12})
    assert rig.total() == sum(range(5, 12))


def test_a_loss_behind_what_was_read_publishes_that_first() -> None:
    rig = Rig(poisson())
    master, worker = rig.master(), rig.worker()
    rig.send(1, 2)
    rig.run(master, worker)
    rig.send(*range(3, 9))
    rig.bus.delete_before(Partition(rig.topic("events"), 0), 7)
    rig.run(worker, master)
    assert rig.spans() == [(0, 2, 2), (2, 7, 0), (7, 8, 1)]
    assert (rig.total(), rig.snapshot().counts.n_lost) == (11.0, 5)


def test_a_frontier_beyond_the_end_of_the_log_is_fatal() -> None:
    rig = Rig(poisson())
    rig.send(1)
    rig.publish_snapshot(
        new_snapshot(fingerprint=rig.spec.fingerprint, version=3, statistics=rig.spec.model.empty(), positions={0: 100})
    )
    with pytest.raises(Fatal) as caught:
        rig.run(rig.worker())
    assert str(caught.value) == (
        "position 100 of demo.events-0 is outside its log [0, 1): the posterior has seen events that the log no longer "
        "has. Was the topic made anew? Use a new spec name for a new log."
    )


def test_an_acknowledged_increment_that_is_not_in_the_log_is_made_again() -> None:
    class Lies(Faults):
        told = False

        def lies(self, operation: str) -> bool:
            first, self.told = not self.told and operation == "publish", True
            return first

    rig = Rig(poisson())
    rig.send(*range(4))
    master, worker = rig.master(), rig.worker(faults=Lies())
    rig.run(master, worker, rounds=10)
    assert rig.spans() == []
    rig.run(master, worker, rounds=10, seconds=worker_module.CHECK_INTERVAL)
    assert rig.spans() == [(0, 4, 4)]
    assert rig.total() == 6.0


def test_after_an_error_it_starts_again_at_the_frontier() -> None:
    class AfterPublish(Faults):
        failed = False

        def after(self, operation: str) -> None:
            if operation == "publish" and not self.failed:
                self.failed = True
                raise Unavailable("it took effect, nobody knows")

    rig = Rig(poisson())
    rig.send(*range(4))
    master, worker = rig.master(), rig.worker(faults=AfterPublish())
    rig.run(master, rounds=3)
    with pytest.raises(Unavailable):
        rig.run(worker)
    worker.reset()
    rig.run(worker, master)
    assert rig.spans() == [(0, 4, 4), (0, 4, 4)]
    assert (rig.total(), rig.snapshot().counts.n_dropped) == (6.0, 1)
    assert rig.value("worker_bus_errors_total") == 1


def test_without_linger_the_last_minibatch_is_cut_where_idleness_is_waited_for() -> None:
    rig = Rig(poisson())
    rig.send(*range(6))
    master, worker = rig.master(), rig.worker()
    rig.run(master, worker, seconds=0.1)
    assert rig.spans() == [(0, 4, 4)]
    mark = IdleMark(rig.spec, rig.bus)
    assert not mark.reached(None)
    assert not mark.reached(rig.snapshot())
    rig.run(master, worker, seconds=0.1)
    assert rig.spans() == [(0, 4, 4), (4, 6, 2)]
    assert mark.reached(rig.snapshot())


def test_partitions_are_shared_and_each_is_whole() -> None:
    rig = Rig(poisson(partitions=4))
    one, other, master = rig.worker("one"), rig.worker("other"), rig.master()
    for partition in range(4):
        rig.send(*(4**partition for _ in range(4)), partition=partition)
    rig.run(one, other, master, rounds=20)
    assert {each["writer"] for each in rig.increments()} == {"one", "other"}
    assert (rig.total(), rig.snapshot().n_events) == (4 * (1 + 4 + 16 + 64), 16)


def test_the_score_is_that_of_the_newest_base() -> None:
    rig = Rig(poisson())
    worker, master = rig.worker(), rig.master()
    rig.send(5, 5, 5, 5)
    rig.run(master, worker)
    rig.send(6, 6, 6, 6)
    rig.run(master, worker)
    model = rig.spec.model
    base = model.posterior(model.statistics(np.full((4, 1), 5.0)))
    last = rig.increments()[-1]
    assert last["score"] == pytest.approx(float(base.log_predictive(np.full((4, 1), 6.0)).sum()))
    assert last["base_version"] > 1
    assert rig.snapshot().counts.score == pytest.approx(sum(each["score"] for each in rig.increments()))
