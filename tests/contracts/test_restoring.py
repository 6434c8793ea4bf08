"""Restoring is the same on every bus: old snapshots and junk on the posterior topic are stepped over."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Bus, Output
from streaminfer.runtime import names
from streaminfer.runtime.follower import Follower
from streaminfer.runtime.shard import Shard
from streaminfer.runtime.telemetry import MasterMetrics
from tests.contracts.bus_harness import HARNESSES, Harness, fixture_over, read_all
from tests.runtime.rig import poisson

SPEC = poisson()
POSTERIOR = names.topic(SPEC, "posterior")

harness = fixture_over(HARNESSES)


def _shard(bus: Bus) -> Shard:
    return Shard(SPEC, bus, 0, MasterMetrics(CollectorRegistry(), SPEC.name))


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
        first.snapshot = replace(first.snapshot, n_events=n_events)
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
