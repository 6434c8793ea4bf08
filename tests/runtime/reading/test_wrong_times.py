"""No single record, whatever its timestamp, takes weight from others or drops their keys."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaminfer.bus.protocol import Output
from streaminfer.runtime.service import Service
from tests.runtime.folding.test_forgetting import NOW, counts, send
from tests.runtime.keyed_rig import KeyedRig, Sent, keyed_spec
from tests.runtime.keyed_streams import BEGIN
from tests.runtime.rig import Rig

MONTH = 30 * 86_400
FORGETS: list[dict[str, float]] = [{"window_seconds": 7200}, {"half_life_seconds": 1e9}]


def run(rig: Rig) -> None:
    services: list[Service] = [rig.worker(), rig.master()]
    rig.run(*services, rounds=30)
    for service in services:
        service.close()


@pytest.mark.parametrize("timestamp", [None, "at"], ids=["records", "events"])
@pytest.mark.parametrize("forget", FORGETS, ids=str)
def test_one_record_of_next_month_counts_for_one(forget: dict[str, float], timestamp: str | None) -> None:
    """By its own time it would be the only one that counts, for a month."""
    rig = Rig(counts(forget, timestamp=timestamp))

    def put(second: int) -> None:
        given = NOW + second
        send(rig, {"k": 1, "at": given}, at=given if timestamp is None else NOW + 2 * MONTH)

    for second in range(20):
        put(second)
    run(rig)
    put(MONTH)
    run(rig)
    assert rig.snapshot().n_effective == pytest.approx(21, rel=1e-5)
    for second in range(20, 40):
        put(second)
    run(rig)
    assert rig.snapshot().n_effective == pytest.approx(41, rel=1e-5)
    assert rig.value("worker_events_ahead_of_time_total") == 1
    assert rig.snapshot().counts.n_dead_lettered == 0


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("wrong", ["a", "new"])
def test_one_record_of_next_month_expires_no_key(wrong: str, shards: int) -> None:
    """Neither those of others nor its own, also over a restart."""
    key = {"field": "city", "expire_after": 60, "shards": shards}
    rig = KeyedRig(keyed_spec(partitions=1, key=key, minibatch=1))
    for part in ([("a", 0), ("b", 1), ("c", 2)], [(wrong, MONTH)], [("b", 3), ("c", 4), ("a", 5)]):
        sent: Sent = [(0, BEGIN + 1000 * at, {"city": city, "k": 1}) for city, at in part]
        rig.send_events(sent)
        master, worker = rig.master(), rig.worker()
        rig.run(master, worker, rounds=20)
        master.close()
        worker.close()
    own = {"a": 3, "b": 2, "c": 2} if wrong == "a" else {"a": 2, "b": 2, "c": 2, "new": 1}
    assert rig.keys() == own
    assert rig.whole().counts.n_expired == 0


def test_a_day_of_silence_is_believed_with_the_second_record() -> None:
    rig = Rig(counts({"window_seconds": 3600.0}))
    send(rig, {"k": 1}, {"k": 1})
    run(rig)
    send(rig, {"k": 1}, at=NOW + 86_400)
    run(rig)
    assert rig.snapshot().n_effective == 3
    send(rig, {"k": 1}, {"k": 1}, at=NOW + 86_400)
    run(rig)
    assert rig.snapshot().n_effective == 2


def test_a_first_record_of_next_month_is_not_believed() -> None:
    """Its partition was met before that time has come."""
    rig = Rig(counts({"window_seconds": 3600.0}))
    send(rig, {"k": 1}, at=NOW + MONTH)
    send(rig, {"k": 1}, {"k": 1}, {"k": 1})
    run(rig)
    assert rig.snapshot().n_effective == 4


@pytest.mark.parametrize("minibatch", [1, 2, 5, 100])
def test_where_minibatches_end_does_not_matter(minibatch: int) -> None:
    rig = Rig(counts({"half_life_seconds": 30.0}, minibatch=minibatch, linger_ms=1))
    times: list[float] = [0, 1, MONTH, 2, 3, 90_000, 90_001, MONTH, 90_002, 90_003, 2 * MONTH, 90_004]
    for i, at in enumerate(times):
        rig.bus.publish([Output(rig.topic("events"), _event(i), partition=0, timestamp=round(1000 * (NOW + at)))])
    run(rig)
    found = rig.snapshot()
    counted = [0, 1, 1, 2, 3, 3, 90_001, 90_001, 90_002, 90_003, 90_003, 90_004]
    weights = [0.5 ** ((90_004 - at) / 30) for at in counted]
    assert found.n_effective == pytest.approx(sum(weights), rel=1e-9)
    assert found.payload.statistics[0] == pytest.approx(sum(w * i for i, w in enumerate(weights)), rel=1e-9)


def _event(k: Any) -> bytes:
    return json.dumps({"k": k}).encode()


def test_what_was_reached_is_kept_only_where_times_matter() -> None:
    rig = Rig(counts({"half_life_events": 5}))
    send(rig, {"k": 1})
    run(rig)
    assert rig.snapshot().frontier.reached == {}
    assert rig.increments()[-1]["reached"] == ()
