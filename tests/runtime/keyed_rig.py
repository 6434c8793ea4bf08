"""A rig for keyed posteriors, and the direct computation that they are held against."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from streaminfer.bus.protocol import Output
from streaminfer.models.checks import check
from streaminfer.runtime.following.key_listing import page
from streaminfer.runtime.following.keys import KeyFollower
from streaminfer.runtime.following.shards import Shards
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.snapshot import Snapshot
from tests.runtime.rig import Rig

Sent = list[tuple[int, int, dict[str, Any]]]
"""(partition, timestamp in milliseconds, event) in the order of the log."""


def keyed_spec(
    model: Mapping[str, Any] | None = None, partitions: int = 2, key: Any = "city", data: Any = None, **inference: Any
) -> Spec:
    settings = {"minibatch": 4, "linger_ms": 0, "snapshot_ms": 1, **inference}
    return parse_spec(
        {
            "name": "demo",
            "data": {"partitions": partitions, **(data or {})},
            "model": model or {"kind": "poisson", "field": "k"},
            "inference": settings,
            "key": key,
        }
    )


class KeyedRig(Rig):
    """Events go to the partitions that the test says, also those of one key to several partitions."""

    def send_events(self, sent: Sent) -> None:
        topic = self.topic("events")
        outputs = [Output(topic, json.dumps(event).encode(), None, at, (), stamp) for at, stamp, event in sent]
        with self.bus.writer("test") as writer:
            writer.commit(outputs)

    def fill(self) -> None:
        """Bad events up to the next multiple of the minibatch, so that nothing waits."""
        for partition, end in self.bus.ends(self.topic("events")).items():
            for _ in range(-end % self.spec.inference.minibatch):
                self.send(b"no event", partition=partition)

    def of_key(self, key: str) -> Snapshot | None:
        follower = KeyFollower(self.spec, self.bus, key)
        try:
            return follower.catch_up()
        finally:
            follower.close()

    def keys(self) -> dict[str, int]:
        return {each.key: each.n_events for each in page(self.spec, self.bus, b"", 10_000)}

    def whole(self) -> Snapshot:
        shards = Shards(self.spec, self.bus)
        found = shards.catch_up()
        shards.close()
        assert found is not None
        return found


def events_of(spec: Spec, events: Iterable[Mapping[str, Any]]) -> np.ndarray:
    checked = check(spec.fields, list(events))
    assert not checked.rejected
    return checked.events.numbers


def directly(spec: Spec, sent: Sent) -> dict[str, tuple[int, float, np.ndarray]]:
    """By key: events, their weights' sum, and the natural parameters of the posterior given the weighted events."""
    rows = defaultdict(list)
    for partition, stamp, event in sent:
        rows[str(event["city"])].append((partition, stamp / 1000, event))
    found = {}
    for key, held in rows.items():
        weights = _weights(spec.inference.forget, [(partition, at) for partition, at, _ in held])
        matrix = events_of(spec, [event for *_, event in held])
        parts = [spec.model.scale(spec.model.statistics(row[None]), w) for row, w in zip(matrix, weights, strict=True)]
        total = spec.model.empty()
        for part in parts:
            total = spec.model.merge(total, part)
        found[key] = (len(held), sum(weights), spec.model.posterior(total).natural)
    return found


def _weights(forget: Mapping[str, float] | None, held: list[tuple[int, float]]) -> list[float]:
    if forget is None:
        return [1.0] * len(held)
    ((kind, half_life),) = forget.items()
    if kind == "half_life_seconds":
        newest = max(at for _, at in held)
        return [0.5 ** ((newest - at) / half_life) for _, at in held]
    partitions = [partition for partition, _ in held]
    return [0.5 ** (partitions[i + 1 :].count(partition) / half_life) for i, partition in enumerate(partitions)]


def assert_exact(rig: KeyedRig, sent: Sent) -> None:
    expected = directly(rig.spec, sent)
    assert rig.keys() == {key: count for key, (count, _, _) in expected.items()}
    for key, (count, weight, natural) in expected.items():
        found = rig.of_key(key)
        assert found is not None, key
        assert found.n_events == count
        np.testing.assert_allclose(found.n_effective, weight, rtol=1e-9)
        exact = rig.spec.model.posterior(found.payload.statistics).natural
        np.testing.assert_allclose(exact, natural, rtol=1e-9, atol=1e-9)
    whole = rig.whole()
    assert whole.n_events == len(sent)
    assert whole.counts.n_keys == len(expected)
