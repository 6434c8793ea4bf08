"""Keys that are idle for long are dropped, by a rule that does not depend on which worker reads when."""

from __future__ import annotations

import random

import pytest

from tests.runtime.keyed_rig import KeyedRig, Sent, keyed_spec
from tests.runtime.keyed_streams import BEGIN, run


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
    assert (rig.whole().counts.n_keys, rig.whole().counts.n_expired, rig.whole().n_events) == (1, 1, 3)
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
    assert rig.whole().counts.n_expired == 1


@pytest.mark.parametrize("minibatch", [4, 100])
@pytest.mark.parametrize("first", [None, 0, 1])
@pytest.mark.parametrize("shards", [1, 2])
def test_keys_that_were_never_idle_keep_all_their_events(first: int | None, minibatch: int, shards: int) -> None:
    """One event a second in each of two partitions, in either order of reading; also over a restart."""
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
    assert rig.whole().frontier.stamps == {0: BEGIN + 30_000, 1: BEGIN + 18_000}


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
        assert rig.whole().counts.n_expired == 1


def test_gauges_do_not_show_the_weights_of_keys_that_are_gone() -> None:
    key = {"field": "city", "expire_after": 10}
    rig = KeyedRig(keyed_spec(partitions=1, key=key, minibatch=1, forget={"half_life_events": 3.0}))
    rig.send_events([(0, BEGIN + 1000 * at, {"city": city, "k": 1}) for city, at in [("a", 0), ("b", 11)]])
    run(rig)
    assert rig.value("master_effective_events") == pytest.approx(1.0)


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
    assert rig.whole().counts.n_expired == n_expired > 5
