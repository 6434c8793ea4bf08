"""One increment of many minibatches: which specs allow it, and that the posterior is the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from streaminfer.bus.protocol import Output
from streaminfer.spec import parse_spec
from tests.runtime.rig import Rig, poisson

GAUSSIAN = {"kind": "gaussian", "fields": ["u", "v"]}


def _document(**sections: Any) -> dict[str, Any]:
    inference = {"minibatch": 4, "linger_ms": 0, "snapshot_ms": 1, **sections.pop("inference", {})}
    base = {"name": "demo", "data": {"partitions": 1}, "model": {"kind": "poisson", "field": "k"}}
    return {**base, "inference": inference, **sections}


def test_a_step_makes_one_increment_for_each_partition() -> None:
    rig = Rig(poisson(partitions=2))
    rig.send(*range(22), partition=0)
    rig.send(*range(100, 109), partition=1)
    rig.run(rig.worker(), rig.master())
    assert sorted(rig.spans()) == [(0, 8, 8), (0, 20, 20)]
    assert (rig.total(), rig.snapshot().n_events) == (sum(range(20)) + sum(range(100, 108)), 28)
    assert rig.snapshot().frontier.positions == {0: 20, 1: 8}


def test_keys_of_short_events_are_not_too_many_for_a_snapshot() -> None:
    """128 kB of Avro may be of 10,000 keys. With 1,000 categories each these have 80 MB, and 64 MiB are refused."""
    model = {"kind": "categorical", "field": "c", "categories": [f"{i:x}" for i in range(1000)]}
    rig = Rig(parse_spec(_document(model=model, key="k", inference={"minibatch": 32})))
    rig.send(*(json.dumps({"k": i, "c": "a"}).encode() for i in range(1120)))
    rig.run(rig.master(), rig.worker(), rounds=6)
    assert sorted(set(rig.spans())) == [(0, 1024, 1024), (1024, 1120, 96)], "8 MiB are the statistics of 1048 keys"
    assert (rig.snapshot().n_events, rig.snapshot().counts.n_keys) == (1120, 1120)


@pytest.mark.parametrize(
    "sections",
    [
        {"drift": {"events_per_false_alarm": 1000}},
        {"key": {"field": "city", "expire_after": 5.0}},
        {"inference": {"method": "svi"}, "model": {"kind": "gaussian_mixture", "fields": ["k"], "components": 2}},
        {"model": {"kind": "logistic_regression", "features": ["k"], "target": "y"}},
    ],
    ids=["drift", "expiry", "svi", "a base"],
)
def test_where_every_minibatch_counts_each_has_an_increment(sections: dict[str, Any]) -> None:
    rig = Rig(parse_spec(_document(**sections)))
    rig.send(*(json.dumps({"k": i % 5, "city": "a", "y": i % 2}).encode() for i in range(12)))
    rig.run(rig.master(), rig.worker(), rounds=40)
    assert rig.spans()[:3] == [(0, 4, 4), (4, 8, 4), (8, 12, 4)]


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"key": "city"},
        {"key": {"field": "city", "shards": 2}},
        {"inference": {"forget": {"half_life_events": 7.0}}},
        {"inference": {"forget": {"half_life_seconds": 15.0}}},
        {"inference": {"forget": {"window_events": 30}}},
        {"inference": {"forget": {"window_seconds": 25.0}}},
        {"key": "city", "inference": {"forget": {"half_life_events": 7.0}}},
    ],
    ids=str,
)
def test_the_posterior_is_that_of_an_increment_for_each(sections: dict[str, Any]) -> None:
    found = [_learned(_document(**sections, model=GAUSSIAN), merges) for merges in (False, True)]
    (one, n_one), (merged, n_merged) = found
    assert n_merged < n_one / 5
    assert (one.n_events, one.frontier.positions) == (merged.n_events, merged.frontier.positions)
    assert one.n_effective == pytest.approx(merged.n_effective, rel=1e-12)
    assert one.counts.n_dead_lettered == merged.counts.n_dead_lettered == 7
    np.testing.assert_allclose(one.payload.statistics, merged.payload.statistics, rtol=1e-9, atol=1e-12)


def _learned(document: dict[str, Any], merges: bool) -> tuple[Any, int]:
    rig, rng = Rig(parse_spec(document), merges=merges), np.random.default_rng(5)
    topic, outputs = rig.topic("events"), []
    for i in range(120):
        event = {"u": rng.normal(), "v": rng.normal(), "city": f"city-{rng.integers(6)}"}
        value = b"no event" if i % 19 == 3 else json.dumps(event).encode()
        outputs.append(Output(topic, value, None, 0, (), 1_700_000_000_000 + 1000 * i))
    rig.bus.publish(outputs)
    worker, master = rig.worker(), rig.master()
    rig.run(master, rounds=3)
    rig.run(worker, rounds=2)
    n = len(rig.increments())
    rig.run(worker, master, rounds=20)
    return rig.snapshot(), n
