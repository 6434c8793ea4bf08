"""The master on a simulated bus: what it folds, what it refuses, and when it publishes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streaminfer.bus.protocol import Fenced, Output, Partition, Unavailable
from streaminfer.runtime import names
from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.dead_letters.pending import Pending
from streaminfer.runtime.folding.master import CHECK_INTERVAL
from streaminfer.runtime.service import Fatal
from streaminfer.spec import parse_spec
from streaminfer.variational.increment import Increment
from streaminfer.wire import increments
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.snapshots import OtherSpec
from tests.made import changed, new_increment, new_snapshot
from tests.runtime.rig import Rig, poisson
from tests.simulation.bus import Faults


def _increment(rig: Rig, begin: int = 0, end: int = 1, total: float = 1.0, **changes: object) -> Increment:
    known = new_increment(
        fingerprint=rig.spec.fingerprint, topic=rig.topic("events"), begin=begin, end=end, n_events=end - begin,
        score=-1.0, statistics=np.array([total, end - begin, 0.0]),
    )  # fmt: skip
    return changed(known, **changes)


def test_the_frontier_of_new_partitions_is_published_before_anything_is_folded() -> None:
    rig = Rig(poisson(partitions=2))
    rig.send(1, 2, 3, partition=1)
    rig.bus.delete_before(Partition(rig.topic("events"), 1), 2)
    master = rig.master()
    assert not rig.records("posterior")
    rig.run(master, rounds=3)
    first = rig.snapshot()
    assert (first.version, first.frontier.positions, first.n_events) == (1, {0: 0, 1: 2}, 0)
    rig.run(master, rounds=10)
    assert rig.snapshot().version == 1


def test_partitions_that_are_added_are_met() -> None:
    rig = Rig(poisson(partitions=1))
    master = rig.master()
    rig.run(master, rounds=3)
    names.create_topics(poisson(partitions=3), rig.bus)
    rig.run(master, rounds=3, seconds=CHECK_INTERVAL)
    assert rig.snapshot().frontier.positions == {0: 0, 1: 0, 2: 0}


def test_bad_increments_go_to_dead_letters_byte_for_byte() -> None:
    rig = Rig(poisson())
    good = increments.encode(_increment(rig), 1 << 20)[0]
    bad = [b"", b"\xff\x00garbage", good[:-1], good + b"\x00", None]
    outputs = [Output(rig.topic("increments"), value, b"key", 0, (("h", b"\x01"),)) for value in bad]
    master = rig.master()
    rig.run(master, rounds=3)
    rig.bus.publish(outputs)
    rig.publish(_increment(rig, total=9.0))
    rig.run(master)
    found = list(Pending(rig.spec, rig.bus))
    assert [letter.value for letter in found] == bad
    assert {(letter.source_key, letter.headers, letter.topic) for letter in found} == {
        (b"key", (("h", b"\x01"),), rig.topic("increments"))
    }
    assert found[0].reason == "bad-frame: 0 bytes are too few for the five of the framing"
    assert (rig.outcome("bad-frame"), rig.outcome("bad-body"), rig.outcome("folded")) == (3, 2, 1)
    assert (rig.total(), rig.snapshot().read_to) == (9.0, 6)


def test_statistics_of_another_size_or_not_finite_are_bad_too() -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    rig.publish(_increment(rig, statistics=np.ones(4)))
    value = increments.decode(increments.encode(_increment(rig), 1 << 20)[0]).value
    data = DECLARED.encode("increments", {**value, "statistics": np.array([np.nan, 1, 1]).tobytes()})
    rig.bus.publish([Output(rig.topic("increments"), data, b"0", 0)])
    rig.run(master)
    assert rig.outcome("bad-value") == 2
    assert rig.snapshot().frontier.positions == {0: 0}
    assert len(list(Pending(rig.spec, rig.bus))) == 2


def test_statistics_that_no_events_give_are_counted_as_rejected() -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    rig.publish(_increment(rig, statistics=np.array([-1.0, 1.0, 0.0])))
    rig.run(master)
    snapshot = rig.snapshot()
    assert (snapshot.counts.n_rejected, snapshot.n_events, snapshot.frontier.positions) == (1, 0, {0: 1})


def test_increments_that_only_together_give_no_posterior_do_not_stop_it() -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    for begin in (0, 1):
        rig.publish(_increment(rig, begin, begin + 1, 0.9e200))
    rig.run(master)
    assert (rig.snapshot().counts.n_rejected, rig.snapshot().frontier.positions, rig.total()) == (1, {0: 2}, 0.9e200)


PRIOR = {"shape": 1.0, "rate": 1.0}


@pytest.mark.parametrize("change", [{"fingerprint": "0" * 16}, {"topic": "other.events"}])
def test_increments_of_another_spec_are_counted_and_dropped(change: dict[str, str]) -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    rig.publish(_increment(rig, **change))
    rig.run(master)
    assert rig.outcome("other-spec") == 1
    assert (rig.snapshot().frontier.positions, rig.snapshot().n_events, rig.snapshot().read_to) == ({0: 0}, 0, 1)
    assert list(Pending(rig.spec, rig.bus)) == []


def test_another_spec_is_told_what_is_different() -> None:
    rig = Rig(poisson())
    rig.run(rig.master(), rounds=3)
    other = poisson()
    document = {**other.document, "model": {**other.document["model"], "prior": {"shape": 2.5, "rate": 1}}}
    changed = parse_spec({**document, "data": {"partitions": 1, "fields": {"k": "count"}}})
    with pytest.raises(OtherSpec) as caught:
        Connection(rig.bus).snapshot(changed)
    assert str(caught.value) == (
        f"the posterior 'demo' on this bus was made by another spec (fingerprint {rig.spec.fingerprint}, this one has "
        f'{changed.fingerprint}): data.fields.k is not set in that spec and ["count"] in this one; '
        "model.prior.shape is 1.0 in that spec and 2.5 in this one. "
        "To start over, give the spec a new name, or use another bus"
    )


@pytest.mark.parametrize("key", [None, "city"])
def test_a_posterior_from_before_an_option_is_told_what_continues_it(
    key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`exposure` plays the option that came later: before it there was always `t`."""
    said = {"name": "demo", "data": {"partitions": 1}, **({} if key is None else {"key": key})}
    before = parse_spec({**said, "model": {"kind": "poisson", "field": "k", "exposure": "t"}})
    begun = replace(before, document={**before.document, "model": {"kind": "poisson", "field": "k", "prior": PRIOR}})
    assert begun.fingerprint != before.fingerprint
    rig = Rig(begun)
    rig.run(rig.master(), rounds=3)
    monkeypatch.setattr("streaminfer.spec.meaning.FORMER", {"poisson": {"exposure": "t"}})
    now = parse_spec({**said, "model": {"kind": "poisson", "field": "k", "exposure": "seconds"}})
    with pytest.raises(
        OtherSpec, match=r"it was begun when model\.exposure was 't': set model\.exposure: t to continue it"
    ):
        Connection(rig.bus).snapshot(now, key)
    continued = parse_spec({**said, "model": {"kind": "poisson", "field": "k", "exposure": "t"}})
    assert continued.fingerprint == begun.fingerprint
    other = Rig(now)
    other.broker, other.bus, other.clock = rig.broker, rig.bus, rig.clock
    rig.clock.advance(20.0)  # the group forgets the master of before
    with pytest.raises(OtherSpec, match="to continue it"):
        other.run(other.master(), rounds=3)


def test_a_posterior_of_another_spec_stops_everybody() -> None:
    rig = Rig(poisson())
    rig.publish_snapshot(new_snapshot(fingerprint="0" * 16, version=1, statistics=rig.spec.model.empty(), positions={}))
    with pytest.raises(OtherSpec, match="give the spec a new name, or use another bus"):
        rig.run(rig.master())
    with pytest.raises(OtherSpec):
        rig.run(rig.worker())
    with pytest.raises(OtherSpec):
        Connection(rig.bus).snapshot(rig.spec)


def test_a_snapshot_comes_after_its_time() -> None:
    rig = Rig(poisson(snapshot_ms=1000))
    master = rig.master()
    rig.run(master, rounds=20, seconds=0.1)
    before = rig.snapshot().version
    rig.clock.advance(-0.5)
    rig.publish(_increment(rig))
    while rig.snapshot().version == before:
        rig.run(master, rounds=1, seconds=0.05)
    elapsed = rig.snapshot().created_at / 1000
    rig.publish(_increment(rig, 1, 2))
    rig.run(master, rounds=18, seconds=0.05)
    assert rig.snapshot().version == before + 1
    rig.run(master, rounds=4, seconds=0.05)
    assert rig.snapshot().version == before + 2
    assert 0.9 <= rig.snapshot().created_at / 1000 - elapsed <= 1.1


def test_a_snapshot_comes_at_once_after_so_many_events() -> None:
    rig = Rig(poisson(snapshot_ms=3_600_000, snapshot_events=5))
    master = rig.master()
    rig.run(master, rounds=3, seconds=0.0)
    rig.publish(_increment(rig, 0, 4))
    rig.run(master, rounds=5, seconds=0.0)
    assert rig.snapshot().n_events == 0
    rig.publish(_increment(rig, 4, 5))
    rig.run(master, rounds=2, seconds=0.0)
    assert rig.snapshot().n_events == 5


def test_a_snapshot_that_workers_wait_for_comes_ten_times_sooner() -> None:
    rig = Rig(poisson(snapshot_ms=1000))
    master = rig.master()
    rig.run(master, rounds=3, seconds=0.0)
    rig.publish(_increment(rig, 5, 6))
    rig.run(master, rounds=2, seconds=0.0)
    assert rig.snapshot().read_to == 0
    rig.clock.advance(0.1)
    rig.run(master, rounds=1)
    assert (rig.snapshot().read_to, rig.snapshot().counts.n_dropped) == (1, 1)


def test_nothing_new_nothing_published() -> None:
    rig = Rig(poisson())
    rig.run(rig.master(), rounds=20, seconds=1.0)
    assert len(rig.records("posterior")) == 1


def test_the_last_snapshot_is_published_at_the_end() -> None:
    rig = Rig(poisson(snapshot_ms=3_600_000))
    master = rig.master()
    rig.run(master, rounds=3)
    rig.publish(_increment(rig))
    rig.run(master, rounds=1)
    assert rig.snapshot().n_events == 0
    master.close()
    assert rig.snapshot().n_events == 1


def test_increments_removed_unread_are_passed_over() -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    for begin in range(3):
        rig.publish(_increment(rig, begin, begin + 1))
    rig.bus.delete_before(Partition(rig.topic("increments"), 0), 2)
    rig.run(master)
    told = (rig.snapshot().read_to, rig.snapshot().frontier.positions, rig.snapshot().counts.n_dropped)
    assert told == (3, {0: 0}, 1)


def test_a_position_beyond_the_end_of_the_increments_is_fatal() -> None:
    rig = Rig(poisson())
    rig.publish_snapshot(
        new_snapshot(
            fingerprint=rig.spec.fingerprint, version=3, statistics=rig.spec.model.empty(), positions={0: 0}, read_to=50
        )
    )
    with pytest.raises(Fatal, match=r"position 50 of demo\.increments-0 is outside its log .* Use a new spec name"):
        rig.run(rig.master())


def test_a_newer_master_shuts_the_old_one_out() -> None:
    rig = Rig(poisson())
    old = rig.master()
    rig.run(old, rounds=3)
    rig.clock.advance(60)
    new = rig.master()
    rig.run(new, rounds=3)
    rig.publish(_increment(rig))
    rig.run(new)
    assert rig.snapshot().n_events == 1
    version = rig.snapshot().version
    rig.run(old, new)
    assert rig.snapshot().version == version


def test_a_lost_answer_is_restored_from_the_log() -> None:
    class NoAnswer(Faults):
        failing = False

        def after(self, operation: str) -> None:
            if self.failing and operation == "commit":
                raise Unavailable("no answer")

    rig, faults = Rig(poisson()), NoAnswer()
    master = rig.master(faults)
    rig.run(master, rounds=3)
    rig.publish(_increment(rig))
    faults.failing = True
    with pytest.raises((Unavailable, Fenced)):
        rig.run(master)
    faults.failing = False
    master.reset()
    rig.publish(_increment(rig, 1, 2))
    rig.run(master)
    assert (rig.snapshot().n_events, rig.total()) == (2, 2.0)
    assert rig.value("master_restores_total") == 2


def test_a_snapshot_that_was_never_written_is_noticed() -> None:
    class Lies(Faults):
        lying = False

        def lies(self, operation: str) -> bool:
            return self.lying and operation == "commit"

    rig, faults = Rig(poisson()), Lies()
    master = rig.master(faults)
    rig.run(master, rounds=3)
    rig.publish(_increment(rig))
    faults.lying = True
    rig.run(master, rounds=3)
    assert rig.snapshot().n_events == 0
    faults.lying = False
    rig.clock.advance(CHECK_INTERVAL)
    with pytest.raises(Unavailable, match="was reported as committed but is not in the log"):
        rig.run(master)
    master.reset()
    rig.run(master)
    assert rig.snapshot().n_events == 1
