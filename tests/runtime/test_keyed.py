"""Keyed posteriors through the real worker and masters: each key's is that of its own events."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from streaminfer.bus.protocol import Unavailable
from streaminfer.models.poisson import Poisson
from streaminfer.runtime import names
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.view import PosteriorSnapshot
from tests.runtime.keyed_rig import KeyedRig, Sent, assert_exact, directly, events_of, keyed_spec
from tests.simulation.bus import Faults
from tests.spec.documents import FULL

BEGIN = 1_700_000_000_000
CITIES = ("a", "b", "ö", "d/e", "", "7")


def event(kind: str, rng: random.Random) -> dict[str, Any]:
    match kind:
        case "bernoulli":
            return {"y": rng.randrange(2)}
        case "categorical":
            return {"c": rng.choice("abc")}
        case "poisson":
            return {"k": rng.randrange(9), "t": rng.uniform(0.5, 2)}
        case "gaussian":
            return {"u": rng.gauss(5, 2), "v": rng.gauss(-1, 1)}
    return {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1), "y": rng.gauss(0, 3)}


def stream(kind: str, n: int, partitions: int, seed: int = 1) -> Sent:
    """Events of few keys, each spread over all partitions; times are not in order."""
    rng = random.Random(seed)
    keys = [city for city in CITIES if city]
    return [
        (rng.randrange(partitions), BEGIN + rng.randrange(20_000), {"city": rng.choice(keys), **event(kind, rng)})
        for _ in range(n)
    ]


def run(rig: KeyedRig, rounds: int = 12) -> None:
    rig.run(rig.master(), rig.worker(), rounds=rounds)


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
    monkeypatch.setattr("streaminfer.runtime.keyed_shard.MAX_DIRTY", 10)
    rig = KeyedRig(keyed_spec(partitions=1, snapshot_ms=3_600_000))
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
    assert rig.whole().n_dead_lettered == 3
    assert len(rig.records("dead-letters")) == 3


def test_a_key_can_be_anywhere_in_an_event() -> None:
    rig = KeyedRig(keyed_spec(partitions=1, data={"fields": {"city": "flat.at"}}))
    rig.send(*[b'{"k": 1, "flat": {"at": %d}}' % i for i in (1, 2, 2, 2)])
    run(rig)
    assert rig.keys() == {"1": 1, "2": 3}


def expiring(stamps: list[tuple[str, int]]) -> KeyedRig:
    rig = KeyedRig(keyed_spec(partitions=1, key={"field": "city", "expire_after": 10}, minibatch=1))
    master, worker = rig.master(), rig.worker()
    for city, at in stamps:
        rig.send_events([(0, BEGIN + 1000 * at, {"city": city, "k": 1})])
        rig.run(master, worker, rounds=4)
    return rig


def test_an_idle_key_expires_with_its_record() -> None:
    rig = expiring([("a", 0), ("b", 10), ("b", 11)])
    assert rig.keys() == {"b": 2}
    assert (rig.whole().n_keys, rig.whole().n_expired, rig.whole().n_events) == (1, 1, 3)
    assert [record.value for record in rig.records("posterior") if record.key == b"key/0/a"][-1] is None
    assert rig.value("master_expired_keys") == 1


def test_a_key_is_not_idle_at_its_limit() -> None:
    assert expiring([("a", 0), ("b", 10)]).keys() == {"a": 1, "b": 1}


def test_an_expired_key_that_comes_again_starts_anew_whether_it_was_swept_or_not() -> None:
    assert expiring([("a", 0), ("b", 11), ("a", 12), ("a", 13)]).keys() == {"a": 2, "b": 1}
    assert expiring([("a", 0), ("a", 11), ("a", 12)]).keys() == {"a": 2}
    rig = KeyedRig(keyed_spec(partitions=1, key={"field": "city", "expire_after": 10}, minibatch=1, snapshot_ms=9999))
    rig.send_events([(0, BEGIN + 1000 * at, {"city": city, "k": 1}) for city, at in [("a", 0), ("b", 11), ("a", 12)]])
    master = rig.master()
    rig.run(master, rig.worker())
    master.close()
    assert rig.keys() == {"a": 1, "b": 1}
    assert rig.whole().n_expired == 1


@pytest.mark.parametrize("minibatch", [4, 100])
@pytest.mark.parametrize("first", [None, 0, 1])
@pytest.mark.parametrize("shards", [1, 2])
def test_keys_that_were_never_idle_keep_all_their_events(first: int | None, minibatch: int, shards: int) -> None:
    """One event a second in each of two partitions, whichever of them is read first; also over a restart."""
    key = {"field": "city", "expire_after": 60, "shards": shards}
    rig = KeyedRig(keyed_spec(key=key, minibatch=minibatch))
    sent: Sent = [(p, BEGIN + 1000 * at, {"city": "ab"[p], "k": 1}) for at in range(200) for p in (0, 1)]
    worker = rig.worker()
    for part in (first, None if first is None else 1 - first):
        rig.send_events([each for each in sent if part in {None, each[0]}])
        sent = [each for each in sent if part not in {None, each[0]}]
        master = rig.master()
        rig.run(master, worker, rounds=16)
        master.close()
    rig.fill()
    rig.run(rig.master(), worker, rounds=8)
    assert rig.keys() == {"a": 200, "b": 200}


def test_the_partition_that_is_behind_says_what_is_idle() -> None:
    """Key a is in both: what the other partition brings is not too late for it, so it may not be swept before."""
    rig = KeyedRig(keyed_spec(key={"field": "city", "expire_after": 10}, minibatch=1))
    worker = rig.worker()
    for p, at, city in ((0, 0, "a"), (1, 0, "b"), (0, 30, "c"), (1, 8, "a"), (1, 18, "d")):
        master = rig.master()
        rig.send_events([(p, BEGIN + 1000 * at, {"city": city, "k": 1})])
        rig.run(master, worker, rounds=6)
        master.close()
    assert rig.keys() == {"a": 2, "c": 1, "d": 1}
    assert rig.whole().stamps == {0: BEGIN + 30_000, 1: BEGIN + 18_000}


def test_nothing_is_swept_while_a_partition_is_unread() -> None:
    rig = KeyedRig(keyed_spec(key={"field": "city", "expire_after": 10}, minibatch=2))
    master, worker = rig.master(), rig.worker()
    for p, at, city in ((1, 5, "a"), (0, 0, "a"), (0, 11, "b")):
        rig.send_events([(p, BEGIN + 1000 * at, {"city": city, "k": 1})])
    rig.run(master, worker, rounds=6)
    assert rig.keys() == {"a": 1, "b": 1}
    rig.fill()
    rig.run(master, worker, rounds=6)
    assert rig.keys() == {"a": 2, "b": 1}


def test_a_master_restores_expired_keys_as_gone() -> None:
    for kind in (None, {"half_life_events": 2.0}):
        key = {"field": "city", "expire_after": 10}
        rig = KeyedRig(keyed_spec(key=key, minibatch=1, forget=kind))
        worker = rig.worker()
        for stamps in ([("a", 0, 0), ("a", 0, 1)], [("b", 11, 0)], [("a", 12, 1), ("c", 12, 0)]):
            master = rig.master()
            rig.send_events([(p, BEGIN + 1000 * at, {"city": city, "k": 1}) for city, at, p in stamps])
            rig.run(master, worker, rounds=6)
            master.close()
        assert rig.keys() == {"a": 1, "b": 1, "c": 1}
        assert rig.whole().n_expired == 1


def test_a_log_that_lacks_a_key_is_fatal() -> None:
    rig = KeyedRig(keyed_spec(partitions=1))
    rig.send_events([(0, BEGIN, {"city": city, "k": 1}) for city in "abcd"])
    master = rig.master()
    rig.run(master, rig.worker())
    master.close()
    log = rig.broker.log(rig.records("posterior")[0].partition)
    log.records = [record for record in log.records if record.key != b"key/0/b"]
    with pytest.raises(Fatal, match="has 4 keys and the log 3"):
        rig.run(rig.master())


def test_a_keys_document_has_its_own_numbers() -> None:
    rig = KeyedRig(keyed_spec(partitions=1))
    rig.send_events([(0, BEGIN, {"city": city, "k": k}) for city, k in [("a", 2), ("b", 5), ("a", 4), ("a", 0)]])
    run(rig)
    snapshot = rig.of_key("a")
    assert snapshot is not None
    document = PosteriorSnapshot(rig.spec, snapshot, "a").to_json()
    assert (document["key"], document["n_events"], document["n_effective"]) == ("a", 3, 3)
    assert document["parameters"]["rate"]["mean"] == pytest.approx((1 + 6) / (1 + 3))
    assert document["score"] == pytest.approx(document["log_evidence"] / 3)
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
    assert rig.whole().n_keys == 24


def test_the_score_is_that_of_every_key_by_itself() -> None:
    from streaminfer.runtime.fit import fit
    from streaminfer.spec import parse_spec

    rig = KeyedRig(keyed_spec(FULL["gaussian"], partitions=1))
    sent = stream("gaussian", 60, 1)
    rig.send_events(sent)
    run(rig)
    alone = parse_spec({"name": "alone", "model": FULL["gaussian"], "inference": {"minibatch": 1}})
    by_key = [[e for _, _, e in sent if e["city"] == city] for city in CITIES if city]
    expected = sum(fit(alone, events).snapshot.score for events in by_key)
    assert rig.whole().score == pytest.approx(expected, rel=1e-9)


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


def pooled_rig(kind: str, n_keys: int, shards: int = 1) -> tuple[KeyedRig, Sent]:
    """All events in one increment, so that the prior is fitted to all of them."""
    rng = random.Random(3)
    key = {"field": "city", "shards": shards, "default": "pooled"}
    rig = KeyedRig(keyed_spec(FULL[kind], partitions=1, key=key, minibatch=10_000, linger_ms=1))
    sent: Sent = [(0, BEGIN, {"city": str(i % n_keys), **event(kind, rng)}) for i in range(8 * n_keys)]
    rig.send_events(sent)
    run(rig)
    return rig, sent


@pytest.mark.parametrize("kind", FULL)
def test_a_pooled_prior_is_fitted_to_the_keys_and_known_to_all(kind: str) -> None:
    rig, sent = pooled_rig(kind, n_keys=9)
    model = rig.spec.model
    events = [events_of(rig.spec, [e for _, _, e in sent if e["city"] == str(i)]) for i in range(9)]
    pooled = model.pooled(np.array([model.statistics(each) for each in events]))
    assert pooled.prior_options != model.prior_options
    found, new = rig.of_key("3"), rig.of_key("never seen")
    assert found is not None
    assert new is not None
    view = PosteriorSnapshot(rig.spec, found, "3")
    exact = pooled.posterior(pooled.statistics(events[3])).natural
    np.testing.assert_allclose(view.posterior.natural, exact, rtol=1e-6)
    prior = PosteriorSnapshot(rig.spec, new, "never seen")
    assert (prior.n_events, prior.to_json()["score"]) == (0, None)
    np.testing.assert_allclose(prior.posterior.natural, pooled.posterior(pooled.empty()).natural, rtol=1e-6)


def test_a_pooled_prior_is_fitted_again_when_there_are_a_quarter_more_events() -> None:
    rig, sent = pooled_rig("poisson", n_keys=8)
    first = rig.whole().prior
    assert first is not None
    more: Sent = [(0, BEGIN, {"city": str(i % 8), "k": 50 * (i % 8), "t": 1.0}) for i in range(17)]
    master, worker = rig.master(), rig.worker()
    rig.clock.advance(20.0)  # the group forgets the services of before
    for part, fitted in ((more[:15], first), (more[15:], None)):
        rig.send_events(part)
        rig.run(master, worker, rounds=20)
        assert rig.whole().n_events == len(sent) + (15 if fitted else 17)
        assert (rig.whole().prior == first) == (fitted is not None)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("forget", [None, {"half_life_events": 3.0}, {"half_life_seconds": 4.0}], ids=str)
def test_gauges_show_the_weights_of_all_keys_and_no_score_of_what_is_forgotten(
    forget: dict[str, float] | None, shards: int
) -> None:
    rig = KeyedRig(keyed_spec(key={"field": "city", "shards": shards}, forget=forget))
    sent = stream("poisson", 60, 2)
    rig.send_events(sent)
    rig.fill()
    run(rig)
    weights = sum(weight for _, weight, _ in directly(rig.spec, sent).values())
    assert rig.value("master_effective_events") == pytest.approx(weights)
    score = rig.whole().score / 60 if forget is None else np.nan
    assert rig.value("master_score_per_event") == pytest.approx(score, nan_ok=True)


def test_gauges_do_not_show_the_weights_of_keys_that_are_gone() -> None:
    key = {"field": "city", "expire_after": 10}
    rig = KeyedRig(keyed_spec(partitions=1, key=key, minibatch=1, forget={"half_life_events": 3.0}))
    rig.send_events([(0, BEGIN + 1000 * at, {"city": city, "k": 1}) for city, at in [("a", 0), ("b", 11)]])
    run(rig)
    assert rig.value("master_effective_events") == 1.0


def test_a_restart_does_not_postpone_the_next_fit() -> None:
    rig = KeyedRig(keyed_spec(partitions=1, key={"field": "city", "default": "pooled"}, minibatch=1))
    worker, fitted = rig.worker(), 0
    for n in range(1, 33):
        rig.send_events([(0, BEGIN, {"city": "abc"[n % 3], "k": n})])
        master = rig.master()
        rig.run(master, worker, rounds=4)
        master.close()
        fitted = n if n >= 1.25 * fitted else fitted
        assert (rig.whole().n_events, rig.whole().n_pooled) == (n, fitted)
    assert fitted == 30


def test_at_most_a_thousand_keys_decide_a_pooled_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("streaminfer.runtime.keyed_shard.MAX_POOLED", 5)
    monkeypatch.setattr(Poisson, "pooled", lambda self, rows: seen.append(rows) or self)
    rig, _ = pooled_rig("poisson", n_keys=9)
    assert [len(rows) for rows in seen] == [5]
    assert rig.whole().n_keys == 9


@pytest.mark.parametrize(("numbers", "keys"), [(20, 6), (3 * 9, 9), (1, 2)])
def test_the_statistics_that_decide_a_pooled_prior_are_bounded(
    numbers: int, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("streaminfer.runtime.keyed_shard.MAX_POOLED_NUMBERS", numbers)
    monkeypatch.setattr(Poisson, "pooled", lambda self, rows: seen.append(rows) or self)
    pooled_rig("poisson", n_keys=9)
    assert [rows.shape for rows in seen] == [(keys, 3)]


@pytest.mark.parametrize("seed", range(4))
def test_expiry_is_that_of_the_rule_event_by_event(seed: int) -> None:
    """Minibatches of one event, timestamps that also go back, a master that starts again now and then."""
    rng = random.Random(seed)
    rig = KeyedRig(keyed_spec(partitions=1, key={"field": "city", "expire_after": 10}, minibatch=1))
    worker, master, at = rig.worker(), rig.master(), 0
    held: dict[str, list[int]] = {}
    n_expired = 0
    for turn in range(60):
        at += rng.randrange(4)
        city, stamp = rng.choice("abcdef"), max(0, at - rng.choice([0, 0, 3, 15]))
        rig.send_events([(0, BEGIN + 1000 * stamp, {"city": city, "k": 1})])
        if city in held and max(held[city]) < stamp - 10:
            del held[city]
            n_expired += 1
        held.setdefault(city, []).append(stamp)
        if turn % 20 == 19:
            master.close()
            master = rig.master()
        rig.run(master, worker, rounds=4)
        latest = max(max(stamps) for stamps in held.values())
        idle = [key for key, stamps in held.items() if max(stamps) < latest - 10]
        n_expired += len(idle)
        held = {key: stamps for key, stamps in held.items() if key not in idle}
        assert rig.keys() == {key: len(stamps) for key, stamps in held.items()}
    assert rig.whole().n_expired == n_expired > 5
