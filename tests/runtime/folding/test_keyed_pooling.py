"""The prior of new keys, fitted to those that are there."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from streaminfer.models.conjugate.poisson import Poisson
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.supervising.idle import IdleMark
from tests.runtime.keyed_rig import KeyedRig, Sent, events_of, keyed_spec
from tests.runtime.keyed_streams import BEGIN, event, run
from tests.spec.documents import FULL


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
    first = rig.whole().payload.prior
    assert first is not None
    more: Sent = [(0, BEGIN, {"city": str(i % 8), "k": 50 * (i % 8), "t": 1.0}) for i in range(17)]
    master, worker = rig.master(), rig.worker()
    rig.clock.advance(20.0)  # the group forgets the services of before
    for part, fitted in ((more[:15], first), (more[15:], None)):
        rig.send_events(part)
        rig.run(master, worker, rounds=20)
        assert rig.whole().n_events == len(sent) + (15 if fitted else 17)
        assert (rig.whole().payload.prior == first) == (fitted is not None)


def test_a_restart_does_not_postpone_the_next_fit() -> None:
    rig = KeyedRig(keyed_spec(partitions=1, key={"field": "city", "default": "pooled"}, minibatch=1))
    worker, fitted = rig.worker(), 0
    for n in range(1, 33):
        rig.send_events([(0, BEGIN, {"city": "abc"[n % 3], "k": n})])
        master = rig.master()
        rig.run(master, worker, rounds=4)
        master.close()
        fitted = n if n >= 1.25 * fitted else fitted
        assert (rig.whole().n_events, rig.whole().counts.n_pooled) == (n, fitted)
    assert fitted == 30


def test_at_most_a_thousand_keys_decide_a_pooled_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr("streaminfer.tables.pooled_prior.MAX_POOLED", 5)
    monkeypatch.setattr(Poisson, "pooled", lambda self, rows: seen.append(rows) or self)
    rig, _ = pooled_rig("poisson", n_keys=9)
    assert [len(rows) for rows in seen] == [5]
    assert rig.whole().counts.n_keys == 9


@pytest.mark.parametrize(("numbers", "keys"), [(20, 6), (3 * 9, 9), (1, 2)])
def test_the_statistics_that_decide_a_pooled_prior_are_bounded(
    numbers: int, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("streaminfer.tables.pooled_prior.MAX_POOLED_NUMBERS", numbers)
    monkeypatch.setattr(Poisson, "pooled", lambda self, rows: seen.append(rows) or self)
    pooled_rig("poisson", n_keys=9)
    assert [rows.shape for rows in seen] == [(keys, 3)]


def idle_rig(sent: Sent, kind: str, portions: int = 1, kill: int = 0, workers: int = 1, **settings: Any) -> KeyedRig:
    """Events in several portions; the master is killed after every `kill` rounds. Ends when `--until-idle` would."""
    key = {"field": "city", "default": "pooled", **settings.pop("key", {})}
    rig = KeyedRig(keyed_spec(FULL[kind], key=key, **settings))
    services = [rig.master(), *(rig.worker(f"w{i}") for i in range(workers))]
    for i in range(portions):
        rig.send_events(sent[i * len(sent) // portions : (i + 1) * len(sent) // portions])
        rig.run(*services, rounds=7)
    mark = IdleMark(rig.spec, rig.bus)
    for turn in range(1, 400):
        if kill and turn % kill == 0:
            rig.clock.advance(11.0)  # until the lease of the one before has ended
            services[0] = rig.master()
        rig.run(*services, rounds=1, seconds=0.25)
        if mark.reached(rig.whole()):
            return rig
    raise AssertionError(f"never idle: {rig.whole()}")


def numbers(rig: KeyedRig) -> np.ndarray:
    prior = rig.whole().payload.prior
    assert prior is not None
    return np.concatenate([np.ravel(value) for _, value in sorted(json.loads(prior).items())]).astype(float)


CADENCES: list[dict[str, Any]] = [
    {"snapshot_ms": 10_000},
    {"snapshot_ms": 1, "portions": 9},
    {"snapshot_ms": 40, "portions": 4, "workers": 3, "linger_ms": 20, "minibatch": 7},
    {"snapshot_ms": 1, "portions": 5, "kill": 3, "workers": 2},
    {"snapshot_ms": 10_000, "portions": 3, "kill": 5},
]


@pytest.mark.parametrize("kind", FULL)
def test_the_prior_of_all_events_does_not_depend_on_timing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not depend on what is killed either; and only some of the keys decide it."""
    monkeypatch.setattr("streaminfer.tables.pooled_prior.MAX_POOLED", 15)
    rng = random.Random(5)
    shift = {f"c{i}": rng.gauss(0, 2) for i in range(25)}
    sent: Sent = []
    for i in range(300):
        city = rng.choice(list(shift))
        drawn = {
            name: value + shift[city]
            if isinstance(value, float) and kind in {"gaussian", "linear_regression"}
            else value
            for name, value in event(kind, rng).items()
        }
        sent.append((i % 2, BEGIN, {"city": city, **drawn}))
    found = [idle_rig(sent, kind, **cadence) for cadence in CADENCES]
    assert {(rig.whole().n_events, rig.whole().counts.n_pooled) for rig in found} == {(300, 300)}
    for rig in found[1:]:
        np.testing.assert_allclose(numbers(rig), numbers(found[0]), rtol=1e-9)


def test_it_is_not_idle_before_the_last_fit_and_a_kill_does_not_lose_it() -> None:
    rig, _ = pooled_rig("poisson", n_keys=8)
    more: Sent = [(0, BEGIN, {"city": str(i % 8), "k": 50 * (i % 8), "t": 1.0}) for i in range(9)]
    rig.clock.advance(20.0)
    rig.send_events(more)
    run(rig, rounds=20)
    before, mark = rig.whole(), IdleMark(rig.spec, rig.bus)
    assert (before.n_events, before.counts.n_pooled, before.frontier.positions) == (73, 64, mark.ends)
    assert not mark.reached(before)
    rig.clock.advance(20.0)
    rig.run(rig.master(), rounds=8, seconds=0.1)
    after = rig.whole()
    assert mark.reached(after)
    assert (after.counts.n_pooled, after.frontier.positions) == (73, mark.ends)
    assert after.payload.prior != before.payload.prior


def test_without_anybody_who_waits_it_is_fitted_ten_seconds_after_the_last_event() -> None:
    rig, _ = pooled_rig("poisson", n_keys=8)
    master, worker = rig.master(), rig.worker()
    rig.clock.advance(20.0)
    rig.send_events([(0, BEGIN, {"city": "1", "k": 70, "t": 1.0})])
    rig.run(master, worker, rounds=90, seconds=0.1)
    assert (rig.whole().n_events, rig.whole().counts.n_pooled) == (65, 64)
    rig.run(master, worker, rounds=20, seconds=0.1)
    assert (rig.whole().n_events, rig.whole().counts.n_pooled) == (65, 65)
    version = rig.whole().version
    rig.run(master, worker, rounds=200, seconds=0.1)
    assert rig.whole().version == version, "it is fitted once"


def test_more_events_than_were_waited_for_are_idle_without_a_fit() -> None:
    rig, _ = pooled_rig("poisson", n_keys=8)
    mark = IdleMark(rig.spec, rig.bus)
    rig.clock.advance(20.0)
    rig.send_events([(0, BEGIN, {"city": "1", "k": 70, "t": 1.0})])
    run(rig, rounds=20)
    assert (rig.whole().n_events, rig.whole().counts.n_pooled) == (65, 64)
    assert mark.reached(rig.whole())


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("most", [2, 10_000])
def test_keys_that_expire_are_not_among_those_that_decide(
    shards: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaminfer.tables.sizes.MAX_DIRTY", most)
    old: Sent = [(0, BEGIN, {"city": f"old-{i}", "k": 1000, "t": 1.0}) for i in range(9)]
    new: Sent = [(i % 2, BEGIN + 60_000, {"city": f"c{i % 9}", "k": i % 9, "t": 1.0}) for i in range(90)]
    key = {"expire_after": 10, "shards": shards}
    found = [
        idle_rig(old + new, "poisson", key=key, **cadence)
        for cadence in ({"snapshot_ms": 10_000}, {"snapshot_ms": 1, "portions": 6}, {"snapshot_ms": 1, "kill": 4})
    ]
    for rig in found:
        assert (rig.whole().counts.n_keys, rig.whole().counts.n_expired, rig.whole().counts.n_pooled) == (9, 9, 99)
        np.testing.assert_allclose(numbers(rig), numbers(found[0]), rtol=1e-9)
