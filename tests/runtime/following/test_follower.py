"""A follower shows every snapshot, with its own rows, and builds no posterior to check one: its reader does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streaminfer.runtime.api.connection import Connection
from streaminfer.runtime.following.keys import KeyFollower
from streaminfer.spec import Spec, parse_spec
from tests.runtime.keyed_rig import KeyedRig, keyed_spec
from tests.runtime.rig import Rig


class Counting:
    """A model that counts the posteriors it gives."""

    def __init__(self, model: Any) -> None:
        self._model, self.n_built = model, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def posterior(self, statistics: np.ndarray) -> Any:
        self.n_built += 1
        return self._model.posterior(statistics)


def mixture(**inference: Any) -> Spec:
    return parse_spec(
        {
            "name": "demo",
            "data": {"partitions": 1},
            "model": {"kind": "gaussian_mixture", "fields": ["k"], "components": 2},
            "inference": {"minibatch": 2, "linger_ms": 0, "snapshot_ms": 1, "max_staleness": 0, **inference},
        }
    )


METHODS: dict[str, dict[str, Any]] = {
    "svb": {"method": "svb"},
    "forgetting": {"method": "svb", "forget": {"half_life_events": 10}},
    "svi": {"method": "svi"},
    "constant": {"method": "svi", "step": {"constant": 0.1}},
    "memoized": {"method": "memoized"},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_posterior_is_built_once_a_snapshot(method: str) -> None:
    rig = Rig(mixture(**METHODS[method]))
    worker, master = rig.worker(), rig.master()
    for values in ([0.1, 5.0], [0.3, 4.6], [-0.2, 5.5]):
        rig.send(*values)
        rig.run(worker, master)
    n_snapshots = len(rig.records("posterior"))
    assert n_snapshots >= 3
    model = Counting(rig.spec.model)
    found = Connection(rig.bus).snapshot(replace(rig.spec, model=model))
    assert model.n_built == 0, "nobody has looked at it"
    assert found is not None
    assert found.n_events == 6
    assert found.mean["weights"].shape == (2,)
    found.sample(np.random.default_rng(1), 3)
    assert model.n_built == 1


def test_a_subscriber_builds_one_posterior_for_each_snapshot() -> None:
    rig = Rig(mixture(method="svi"))
    worker, master = rig.worker(), rig.master()
    model = Counting(rig.spec.model)
    rig.run(worker, master)
    seen, built = iter(Connection(rig.bus).subscribe(replace(rig.spec, model=model), timeout=0.2)), []
    next(seen)
    for values in ([0.1, 5.0], [0.3, 4.6], [-0.2, 5.5]):
        rig.send(*values)
        rig.run(worker, master)
    for n, snapshot in enumerate(seen, start=1):
        assert set(snapshot.to_json()["parameters"]) == {"weights", "means", "covs"}
        built.append((n, model.n_built))
    assert len(built) >= 3
    assert all(n == count for n, count in built)


def test_a_key_builds_one_posterior() -> None:
    rig = KeyedRig(keyed_spec(partitions=1, minibatch=1))
    worker, master = rig.worker(), rig.master()
    for city in "abab":
        rig.send_events([(0, 0, {"city": city, "k": 3})])
        rig.run(worker, master)
    model = Counting(rig.spec.model)
    found = Connection(rig.bus).snapshot(replace(rig.spec, model=model), key="a")
    assert found is not None
    assert (found.n_events, model.n_built) == (2, 0)
    assert found.mean["rate"] == pytest.approx(7 / 3)
    assert model.n_built == 1


def test_a_key_is_followed_through_all_snapshots_in_which_it_changed() -> None:
    """Even if they come in one poll: each has the rows of its own manifest."""
    rig = KeyedRig(keyed_spec(partitions=1, minibatch=1))
    worker, master = rig.worker(), rig.master()
    rig.run(worker, master)
    follower = KeyFollower(rig.spec, rig.bus, "a")
    assert follower.catch_up() is None
    for city in "abaab":
        rig.send_events([(0, 0, {"city": city, "k": 3})])
        rig.run(worker, master)
    found = follower.poll(0.0)
    assert [(each.n_events, each.payload.statistics[0]) for each in found] == [(1, 3.0), (2, 6.0), (3, 9.0)]
    assert [each.frontier.positions for each in found] == [{0: 1}, {0: 3}, {0: 4}]
    newest = follower.catch_up()
    assert newest is not None
    assert (newest.n_events, newest.frontier.positions) == (3, {0: 5})
