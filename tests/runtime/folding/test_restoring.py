"""What a master has committed every master can restore, and nothing on the topic shows another posterior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from streaminfer.bus.protocol import Output, Partition, Record
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.following.keys import KeyFollower
from streaminfer.runtime.learning.worker import Worker
from streaminfer.runtime.owning.manifest import ManifestWriter
from streaminfer.runtime.service import Fatal
from streaminfer.tables.table import Described
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.snapshots import MANIFEST
from tests.made import changed, new_increment
from tests.runtime.keyed_rig import KeyedRig, keyed_spec
from tests.runtime.rig import Rig, poisson


def _increment(rig: Rig, begin: int, end: int, **changes: object) -> Increment:
    known = new_increment(
        fingerprint=rig.spec.fingerprint, topic=rig.topic("events"), begin=begin, end=end, n_events=end - begin,
        statistics=np.array([1.0, end - begin, 0.0]),
    )  # fmt: skip
    return changed(known, **changes)


@pytest.mark.parametrize("score", [1.7e308, -1.7e308, 1e101])
def test_a_score_that_no_events_have_is_a_dead_letter_and_the_next_master_restores(score: float) -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    rig.publish(_increment(rig, 0, 1, score=score))
    rig.publish(_increment(rig, 0, 1, score=score))
    rig.publish(_increment(rig, 0, 1, score=-1e100))
    rig.publish(_increment(rig, 1, 2, score=-1e100))
    rig.run(master)
    assert rig.outcome("bad-value") == 2
    again = rig.master()
    master.close()
    rig.run(again)
    found = rig.snapshot()
    assert (found.n_events, found.counts.score) == (2, -2e100)


def test_statistics_that_sum_to_no_number_are_rejected_and_counted() -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    for begin in range(3):
        rig.publish(_increment(rig, begin, begin + 1, statistics=np.array([1e308, 1.0, 0.0])))
    rig.run(master)
    found = rig.snapshot()
    assert rig.outcome("rejected") == 3
    assert (found.n_events, found.counts.n_rejected) == (0, 3)
    master.close()
    rig.run(rig.master())
    assert rig.snapshot().counts.n_rejected == 3


@pytest.mark.parametrize("fault", [{"score": float("inf")}, {"n_lost": -1}, {"created_at": 1 << 60}])
def test_what_cannot_be_read_is_never_written(fault: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    before = len(rig.records("posterior"))
    outputs = ManifestWriter.outputs

    def faulty(writer: ManifestWriter, snapshot: Snapshot, said: Described) -> object:
        return outputs(writer, changed(snapshot, **fault), said)

    monkeypatch.setattr(ManifestWriter, "outputs", faulty)
    rig.publish(_increment(rig, 0, 1))
    with pytest.raises(Fatal, match=r"demo\.posterior: version 2 is not written: no master could restore it"):
        rig.run(master)
    assert len(rig.records("posterior")) == before


def _again(rig: Rig, record: Record) -> None:
    """Appends a record that the posterior topic has, as an operator does who puts a part of a backup back."""
    rig.bus.publish([Output(rig.topic("posterior"), record.value, record.key, 0, record.headers)])


def test_an_old_manifest_that_is_appended_again_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    rig.publish(_increment(rig, 0, 1))
    rig.run(master)
    rig.publish(_increment(rig, 1, 2))
    rig.run(master)
    before = rig.snapshot()
    _again(rig, rig.records("posterior")[1])
    assert (rig.snapshot().version, rig.snapshot().n_events) == (before.version, 2)
    assert "is ignored: version 2 after version" in caplog.text
    master.close()
    again = rig.master()
    rig.run(again, rounds=3)
    rig.publish(_increment(rig, 2, 3))
    rig.run(again)
    assert rig.snapshot().n_events == 3
    assert rig.outcome("behind") == 0


def _keyed(n_events: Sequence[int]) -> tuple[KeyedRig, Worker, Master]:
    """A rig whose key `a` has had N events more with each snapshot."""
    rig = KeyedRig(keyed_spec(partitions=1, minibatch=1))
    worker, master = rig.worker(), rig.master()
    for n in n_events:
        rig.send_events([(0, 0, {"city": "a", "k": 1})] * n)
        rig.run(worker, master, rounds=2 * n + 12)
    return rig, worker, master


def _manifests(rig: Rig) -> list[Record]:
    return [record for record in rig.records("posterior") if record.key == MANIFEST]


def test_a_key_is_what_the_newest_manifest_says_whatever_is_appended_again(caplog: pytest.LogCaptureFixture) -> None:
    rig, worker, master = _keyed([2, 3])
    old = _manifests(rig)[1]
    row = next(record for record in rig.records("posterior") if record.key == b"key/0/a")
    _again(rig, old)
    _again(rig, row)
    _again(rig, old)
    found = rig.of_key("a")
    assert found is not None
    assert (found.n_events, rig.whole().n_events) == (5, 5)
    assert "is ignored: version" in caplog.text
    master.close()
    again = rig.master()
    rig.send_events([(0, 0, {"city": "a", "k": 1})])
    rig.run(worker, again)
    found = rig.of_key("a")
    assert found is not None
    assert found.n_events == 6


def test_rows_without_their_manifest_are_neither_shown_nor_restored(caplog: pytest.LogCaptureFixture) -> None:
    rig, _, master = _keyed([2, 3])
    master.close()
    _again(rig, _manifests(rig)[1])
    rig.broker.compact(rig.topic("posterior"))
    assert len(_manifests(rig)) == 1
    assert rig.of_key("a") is None
    assert "a manifest of version" in caplog.text
    with pytest.raises(Fatal, match=r"demo\.posterior-0"):
        rig.run(rig.master())


def test_a_row_is_shown_with_its_manifest_and_not_before() -> None:
    rig, _, _ = _keyed([2, 3])
    newest = rig.records("posterior")[-1]
    follower = KeyFollower(rig.spec, rig.bus, "a")
    rig.broker.log(newest.partition).records.remove(newest)
    found = follower.catch_up()
    assert found is not None
    assert found.n_events == 2


def _junk(rig: Rig, key: bytes = MANIFEST, value: bytes | None = b"\0\0\0\0\x09junk") -> None:
    rig.bus.publish([Output(rig.topic("posterior"), value, key, 0)])


def _folded(rig: Rig, n: int) -> Master:
    """A master that has folded n increments of one event, each in a snapshot of its own."""
    master = rig.master()
    rig.run(master, rounds=3)
    for begin in range(n):
        rig.publish(_increment(rig, begin, begin + 1))
        rig.run(master)
    return master


@pytest.mark.parametrize("key", [MANIFEST, b"chunk-0", b"anything"])
@pytest.mark.parametrize("value", [b"", b"junk", b"\0\0\0\0\x08junk", b"\0\0\0\0\x09junk"])
def test_junk_does_not_lock_a_posterior_out(key: bytes, value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(poisson())
    _folded(rig, 2).close()
    before = rig.snapshot()
    _junk(rig, key, value)
    again = rig.master()
    rig.run(again, rounds=3)
    assert "skipped demo.posterior-0 offset 3: " in caplog.text
    found = rig.snapshot()
    assert (found.n_events, found.version) == (2, before.version + 2)
    assert rig.records("posterior")[-1].key == MANIFEST
    rig.publish(_increment(rig, 2, 3))
    rig.run(again)
    assert rig.snapshot().n_events == 3


def test_the_events_of_a_snapshot_that_is_lost_are_read_again() -> None:
    rig = Rig(poisson(minibatch=1))
    worker, master = rig.worker(), rig.master()
    rig.send(1, 2)
    rig.run(worker, master)
    rig.send(4)
    rig.run(worker, master)
    master.close()
    log = rig.broker.log(Partition(rig.topic("posterior"), 0))
    log.records[-1] = replace(log.records[-1], value=b"\0" + (log.records[-1].value or b"")[:40])
    lost = rig.snapshot().n_events
    assert lost < 3
    rig.run(worker, rig.master(), rounds=30)
    assert (rig.total(), rig.snapshot().n_events) == (7.0, 3)


def test_nothing_whole_is_an_error_that_names_the_remedy() -> None:
    rig = Rig(poisson())
    _folded(rig, 1).close()
    _junk(rig)
    rig.broker.compact(rig.topic("posterior"))
    with pytest.raises(Fatal, match=r"offset 2: .*No whole snapshot is left.*streaminfer repair SPEC"):
        rig.run(rig.master())


def test_what_a_newer_version_wrote_is_not_junk() -> None:
    for rig, master in ((Rig(poisson()), None), _keyed([1])[::2]):
        (master or _folded(rig, 1)).close()
        _junk(rig, MANIFEST, b"\0\0\0\0\x63of tomorrow")
        with pytest.raises(Fatal, match=r"schema id 99 is not the .* written by a newer version of streaminfer"):
            rig.run(rig.master())


@pytest.mark.parametrize("key", [MANIFEST, b"key/0/a", b"key/0/other", b"key/x/a", b"anything"])
def test_junk_does_not_lock_keys_out(key: bytes, caplog: pytest.LogCaptureFixture) -> None:
    rig, worker, master = _keyed([2, 3])
    master.close()
    _junk(rig, key)
    again = rig.master()
    rig.send_events([(0, 0, {"city": "a", "k": 1})])
    rig.run(worker, again, rounds=20)
    found = rig.of_key("a")
    assert found is not None
    assert (found.n_events, rig.whole().n_events) == (6, 6)
    assert "offset 5" in caplog.text
    again.close()
    rig.broker.compact(rig.topic("posterior"))
    last = rig.master()
    rig.send_events([(0, 0, {"city": "b", "k": 1})])
    rig.run(worker, last, rounds=20)
    assert rig.keys() == {"a": 6, "b": 1}


def test_rows_whose_manifest_is_lost_are_taken_back_and_their_events_read_again() -> None:
    rig, worker, master = _keyed([2])
    rig.send_events([(0, 0, {"city": city, "k": 1}) for city in ("a", "b")])
    rig.run(worker, master, rounds=20)
    master.close()
    log = rig.broker.log(Partition(rig.topic("posterior"), 0))
    log.records[-1] = replace(log.records[-1], value=b"junk")
    again = rig.master()
    for _ in range(6):
        again.step(0.0)
    assert rig.whole().n_events <= 3
    rig.run(worker, again, rounds=30)
    assert rig.keys() == {"a": 3, "b": 1}
    found = rig.of_key("a")
    assert found is not None
    assert found.payload.statistics[0] == 3.0


def test_statistics_of_more_events_than_an_increment_counts_are_rejected() -> None:
    rig = Rig(poisson())
    master = rig.master()
    rig.run(master, rounds=3)
    rig.publish(_increment(rig, 0, 1, statistics=np.array([1e6, 1e6, 0.0])))
    rig.publish(_increment(rig, 1, 2, statistics=np.array([3.0, 1.0, 0.0])))
    rig.run(master)
    found = rig.snapshot()
    assert (found.n_events, found.counts.n_rejected, found.payload.statistics[1]) == (1, 1, 1.0)


def test_a_flood_of_junk_is_told_in_few_words(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(poisson())
    master = _folded(rig, 1)
    follower = Follower(rig.spec, rig.bus)
    caplog.clear()
    for i in range(300):
        _junk(rig, b"chunk-%d" % i)
        rig.bus.publish([Output(rig.topic("increments"), b"junk", b"0", 0)])
        rig.publish(changed(_increment(rig, 1, 2), fingerprint="another"))
    rig.run(master, rounds=30)
    follower.catch_up()
    assert rig.outcome("bad-frame") + rig.outcome("other-spec") == 600
    assert len(caplog.records) == 3


def test_a_reader_follows_a_log_that_has_gone_back_to_an_older_snapshot() -> None:
    """Compaction keeps the old manifest that was appended again: the master goes on from that, and is not stuck."""
    rig = Rig(poisson(minibatch=1))
    worker, master = rig.worker(), rig.master()
    rig.run(worker, master, rounds=3)
    for value in (1, 2, 4):
        rig.send(value)
        rig.run(worker, master)
    master.close()
    _again(rig, _manifests(rig)[1])
    rig.broker.compact(rig.topic("posterior"))
    again = rig.master()
    rig.run(worker, again, rounds=30)
    rig.send(8)
    rig.run(worker, again, rounds=30)
    assert (rig.total(), rig.snapshot().n_events) == (15.0, 4)
