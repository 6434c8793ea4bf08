"""Restoring is the same on every bus and for every kind: old snapshots and junk are stepped over."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Output
from streaminfer.runtime import names
from streaminfer.runtime.folding.master import Master
from streaminfer.runtime.folding.shard import Shard
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.following.shards import Shards, rows_of
from streaminfer.runtime.learning.worker import Worker
from streaminfer.runtime.supervising.idle import IdleMark
from streaminfer.runtime.telemetry import MasterMetrics, WorkerMetrics
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.snapshot import Snapshot
from tests.contracts.bus_harness import HARNESSES, Harness, fixture_over, read_all
from tests.made import changed
from tests.runtime.rig import poisson

SPEC = poisson()
POSTERIOR = names.topic(SPEC, "posterior")
PASSES = {"method": "memoized", "epochs": 2}
LOGISTIC = {"kind": "logistic_regression", "target": "y", "features": ["x"]}
LDA = {"kind": "lda", "field": "words", "topics": 2}

harness = fixture_over(HARNESSES)


def _shard(bus: Bus) -> Shard:
    shard = Shard(SPEC, bus, 0, MasterMetrics(CollectorRegistry(), SPEC.name))
    while not shard.restored():
        pass
    return shard


def _newest(bus: Bus) -> tuple[int, int]:
    """Version and events that a reader is shown."""
    follower = Follower(SPEC, bus)
    found = follower.catch_up()
    follower.close()
    assert found is not None
    return found.version, found.n_events


def test_old_snapshots_and_junk_are_stepped_over(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    # As users open it: the harness has Kafka compact at once, which leaves the old snapshot alone.
    with harness.open() if harness.url is None else open_bus(harness.url) as bus:
        _step_over(bus, caplog)


def _step_over(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    names.create_topics(SPEC, bus)
    first = _shard(bus)
    for n_events in (50, 100):
        first.snapshot = changed(first.snapshot, n_events=n_events)
        first.commit(None, int(time.time() * 1000))
    first.close()
    old = read_all(bus, POSTERIOR)[0]
    bus.publish([Output(POSTERIOR, old.value, old.key, 0, old.headers)])
    assert _newest(bus) == (2, 100)
    assert "is ignored: version 1 after version 2" in caplog.text
    bus.publish([Output(POSTERIOR, b"junk", old.key, 0)])
    second = _shard(bus)
    assert second.dirty
    assert second.snapshot.n_events == 100
    second.commit(None, int(time.time() * 1000))
    second.close()
    version, n_events = _newest(bus)
    assert (version > 3, n_events) == (True, 100)
    third = _shard(bus)
    assert (third.dirty, third.published.version) == (False, version)
    third.close()


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "key": {"key": "city"},
    "window": {"inference": {"forget": {"window_events": 1000}}},
    "memoized": {"model": LOGISTIC, "inference": PASSES},
    "words": {"model": LDA},
    "words-memoized": {"model": LDA, "inference": PASSES},
}
EVENT = {"k": 3, "y": 1, "x": 0.5, "city": "a", "words": ["lake", "hill"]}
JUNK = {
    "posterior": [b"manifest", b"chunk-0", b"key/0/lake", b"key/0/a", b"key/0/other", b"key/x", b"anything"],
    "statistics": [b"0/0/0", b"0/4/0", b"0/7/0", b"anything"],
}
N, MORE = 20, 5


def _spec(kind: str) -> Spec:
    changes = KINDS[kind]
    inference = {"minibatch": 4, "linger_ms": 0, "snapshot_ms": 1, **changes.get("inference", {})}
    model = {"kind": "poisson", "field": "k"}
    return parse_spec({"name": "demo", "data": {"partitions": 1}, "model": model, **changes, "inference": inference})


def _send(spec: Spec, bus: Bus, n: int) -> None:
    bus.publish([Output(names.topic(spec, "events"), json.dumps(EVENT).encode(), None, 0)] * n)


def _learn(spec: Spec, bus: Bus) -> Snapshot:
    """What the services make of all events that are there."""
    registry = CollectorRegistry()
    mark = IdleMark(spec, bus)
    master = Master(spec, bus, time.monotonic, MasterMetrics(registry, spec.name))
    worker = Worker(spec, bus, time.monotonic, "w", WorkerMetrics(registry, spec.name))
    reader, deadline = Shards(spec, bus, rows=rows_of(spec)), time.monotonic() + 90
    reader.catch_up()
    try:
        while not (mark.reached(reader.snapshot) and master.ready):
            assert time.monotonic() < deadline, f"it stands at {reader.snapshot}"
            master.step(0.01)
            worker.step(0.01)
            reader.poll(0.01)
    finally:
        worker.close()
        master.close()
        reader.close()
    assert reader.snapshot is not None
    return reader.snapshot


@pytest.mark.parametrize("kind", KINDS)
def test_junk_never_locks_a_posterior_out(harness: Harness, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    spec = _spec(kind)
    with harness.open() if harness.url is None else open_bus(harness.url) as bus:
        names.create_topics(spec, bus)
        _send(spec, bus, N)
        assert _learn(spec, bus).n_events == N
        junk = [(topic, key) for topic in names.state_topics(spec) for key in JUNK[topic.removeprefix("demo.")]]
        bus.publish([Output(topic, b"junk", key, 0) for topic, key in junk])
        _send(spec, bus, MORE)
        found = _learn(spec, bus)
        assert (found.n_events, found.counts.n_lost) == (N + MORE, 0)
        assert "skipped demo.posterior-0" in caplog.text
        caplog.clear()
        assert _learn(spec, bus).n_events == N + MORE
        assert "skipped" not in caplog.text, "what was junk is overwritten"
