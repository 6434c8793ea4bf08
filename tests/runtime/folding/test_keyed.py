"""Keyed posteriors through the real worker and masters: each key's is that of its own events."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.bus.protocol import Unavailable
from streaminfer.runtime import names
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.service import Fatal
from tests.runtime.keyed_rig import KeyedRig, Sent, assert_exact, directly, keyed_spec
from tests.runtime.keyed_streams import BEGIN, run, stream
from tests.simulation.bus import Faults
from tests.spec.documents import FULL


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("forget", [None, {"half_life_events": 3.0}, {"half_life_seconds": 4.0}], ids=str)
@pytest.mark.parametrize("kind", FULL)
def test_every_model_is_exact_for_every_key(kind: str, forget: dict[str, float] | None, shards: int) -> None:
    rig = KeyedRig(keyed_spec(FULL[kind], key={"field": "city", "shards": shards}, forget=forget))
    sent = stream(kind, 60, 2)
    rig.send_events(sent)
    rig.fill()
    run(rig)
    assert_exact(rig, sent)


def test_a_master_that_starts_again_goes_on_with_what_the_log_has() -> None:
    for forget in (None, {"half_life_events": 3.0}, {"half_life_seconds": 4.0}):
        rig = KeyedRig(keyed_spec(key={"field": "city", "shards": 2}, forget=forget))
        sent = stream("poisson", 120, 2)
        worker = rig.worker()
        for part in (sent[:40], sent[40:80], sent[80:]):
            rig.send_events(part)
            master = rig.master()
            rig.run(master, worker)
            master.close()
        rig.fill()
        rig.run(rig.master(), worker)
        assert_exact(rig, sent)


def test_only_keys_that_changed_are_in_a_snapshot() -> None:
    rig = KeyedRig(keyed_spec(partitions=1))
    rig.send_events([(0, BEGIN, {"city": city, "k": 1}) for city in "abcd"])
    master, worker = rig.master(), rig.worker()
    rig.run(master, worker)
    before = len(rig.records("posterior"))
    rig.send_events([(0, BEGIN, {"city": "c", "k": 2})] * 4)
    rig.run(master, worker)
    keys = [record.key for record in rig.records("posterior")[before:]]
    assert keys == [b"key/0/c", b"manifest"]
    assert rig.value("master_keys") == 4
    assert rig.value("master_dirty_keys") == 1


def test_a_master_publishes_at_once_when_many_keys_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaminfer.tables.sizes.MAX_DIRTY", 10)
    rig = KeyedRig(keyed_spec(partitions=1, snapshot_ms=3_600_000), merges=False)
    sent: Sent = [(0, BEGIN, {"city": str(i), "k": 1}) for i in range(40)]
    rig.send_events(sent)
    run(rig)
    assert rig.whole().n_events >= 36
    sizes, size = [], 0
    for record in rig.records("posterior"):
        size += 1
        if record.key == b"manifest":
            sizes.append(size)
            size = 0
    assert max(sizes) <= 10 + 4 + 1, "a snapshot has what was dirty before and one increment, and the manifest"


def test_a_key_that_cannot_be_one_is_a_dead_letter() -> None:
    rig = KeyedRig(keyed_spec(partitions=1))
    rig.send(*[b'{"k": 1, "city": %s}' % city for city in (b'""', b"true", b"1.5", b'"x"')])
    run(rig)
    assert rig.keys() == {"x": 1}
    assert rig.whole().counts.n_dead_lettered == 3
    assert len(rig.records("dead-letters")) == 3


def test_a_key_can_be_anywhere_in_an_event() -> None:
    rig = KeyedRig(keyed_spec(partitions=1, data={"fields": {"city": "flat.at"}}))
    rig.send(*[b'{"k": 1, "flat": {"at": %d}}' % i for i in (1, 2, 2, 2)])
    run(rig)
    assert rig.keys() == {"1": 1, "2": 3}


@pytest.mark.parametrize("compacted", [False, True])
def test_a_log_that_lacks_a_key(compacted: bool) -> None:
    rig = KeyedRig(keyed_spec(partitions=1))
    rig.send_events([(0, BEGIN, {"city": city, "k": 1}) for city in "abcd"])
    master = rig.master()
    worker = rig.worker()
    rig.run(master, worker)
    master.close()
    log = rig.broker.log(rig.records("posterior")[0].partition)
    log.records = [record for record in log.records if record.key != b"key/0/b"]
    if compacted:
        rig.broker.compact(rig.topic("posterior"))
        with pytest.raises(Fatal, match=r"has 4 keys and the log 3.*repair SPEC"):
            rig.run(rig.master())
    else:
        rig.run(rig.master(), worker, rounds=30)
        assert rig.keys() == dict.fromkeys("abcd", 1)


def test_a_keys_document_has_its_own_numbers() -> None:
    rig = KeyedRig(keyed_spec(partitions=1))
    rig.send_events([(0, BEGIN, {"city": city, "k": k}) for city, k in [("a", 2), ("b", 5), ("a", 4), ("a", 0)]])
    run(rig)
    snapshot = rig.of_key("a")
    assert snapshot is not None
    document = PosteriorSnapshot(rig.spec, snapshot, "a").to_json()
    assert (document["key"], document["n_events"], document["n_effective"]) == ("a", 3, 3)
    assert document["parameters"]["rate"]["mean"] == pytest.approx((1 + 6) / (1 + 3))
    assert document["score"] is None, "nobody has both the events of a key and its posterior"
    exact = rig.spec.model.posterior(rig.spec.model.statistics(np.array([[2.0], [4.0], [0.0]]))).log_evidence()
    assert document["log_evidence"] == pytest.approx(exact)
    assert document["frontier"] == {"demo.events-0": 4}
    assert rig.of_key("c") is None


def test_shards_divide_the_keys_as_the_partitioner_says() -> None:
    rig = KeyedRig(keyed_spec(partitions=1, key={"field": "city", "shards": 3}))
    cities = [f"city-{i}" for i in range(24)]
    rig.send_events([(0, BEGIN, {"city": city, "k": 1}) for city in cities])
    run(rig)
    held = {
        shard: {record.key for record in rig.records("posterior", shard) if record.key != b"manifest"}
        for shard in range(3)
    }
    for city in cities:
        assert f"key/0/{city}".encode() in held[names.shard_of(rig.spec, city.encode())]
    assert sum(len(keys) for keys in held.values()) == len(cities)
    assert all(held.values())
    assert rig.whole().counts.n_keys == 24


class _LiesOnce(Faults):
    """The commit of this number (from 1) is reported and not written."""

    def __init__(self, number: int) -> None:
        self._left = number

    def lies(self, operation: str) -> bool:
        self._left -= operation == "commit"
        return operation == "commit" and self._left == 0


@pytest.mark.parametrize("number", [2, 3])
def test_keys_of_a_commit_that_was_reported_and_is_not_there_come_again(number: int) -> None:
    rig = KeyedRig(keyed_spec(partitions=1, minibatch=1))
    master, worker = rig.master(_LiesOnce(number)), rig.worker()
    sent: Sent = [(0, BEGIN, {"city": city, "k": 1}) for city in "abcde"]
    for each in sent:
        rig.send_events([each])
        for _ in range(3):
            worker.step(0.0)
            try:
                master.step(0.0)
            except Unavailable:
                master.reset()
            rig.clock.advance(0.01)
    rig.run(master, worker)
    assert_exact(rig, sent)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("forget", [None, {"half_life_events": 3.0}, {"half_life_seconds": 4.0}], ids=str)
def test_gauges_show_the_weights_of_all_keys_and_no_score(forget: dict[str, float] | None, shards: int) -> None:
    rig = KeyedRig(keyed_spec(key={"field": "city", "shards": shards}, forget=forget))
    sent = stream("poisson", 60, 2)
    rig.send_events(sent)
    rig.fill()
    run(rig)
    weights = sum(weight for _, weight, _ in directly(rig.spec, sent).values())
    assert rig.value("master_effective_events") == pytest.approx(weights)
    assert np.isnan(rig.value("master_score_per_event"))
