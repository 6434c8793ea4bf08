"""The prior of new keys, fitted to those that are there."""

from __future__ import annotations

import random

import numpy as np
import pytest

from streaminfer.models.poisson import Poisson
from streaminfer.runtime.view import PosteriorSnapshot
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
    monkeypatch.setattr("streaminfer.runtime.pooling.MAX_POOLED", 5)
    monkeypatch.setattr(Poisson, "pooled", lambda self, rows: seen.append(rows) or self)
    rig, _ = pooled_rig("poisson", n_keys=9)
    assert [len(rows) for rows in seen] == [5]
    assert rig.whole().n_keys == 9


@pytest.mark.parametrize(("numbers", "keys"), [(20, 6), (3 * 9, 9), (1, 2)])
def test_the_statistics_that_decide_a_pooled_prior_are_bounded(
    numbers: int, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("streaminfer.runtime.pooling.MAX_POOLED_NUMBERS", numbers)
    monkeypatch.setattr(Poisson, "pooled", lambda self, rows: seen.append(rows) or self)
    pooled_rig("poisson", n_keys=9)
    assert [rows.shape for rows in seen] == [(keys, 3)]
