"""No service works, or is ready, before it has compared the posterior on the bus with its spec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output, Unavailable
from streaminfer.runtime import names
from streaminfer.runtime.following import comparing
from streaminfer.runtime.following.comparing import LOOK_S, Compared, compare
from streaminfer.runtime.running import loop
from streaminfer.runtime.service import NotYet
from streaminfer.spec import Spec, parse_spec
from streaminfer.wire import snapshots
from streaminfer.wire.avro import DECLARED
from tests.made import new_snapshot


def spec_of(**more: Any) -> Spec:
    return parse_spec({"name": "coin", "data": {"partitions": 1}, "model": {"kind": "bernoulli", "field": "y"}, **more})


OURS, THEIRS = spec_of(), spec_of(model={"kind": "bernoulli", "field": "z"})


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path / "bus") as opened:
        yield opened


def show(bus: EmbeddedBus, spec: Spec, version: int = 1) -> None:
    """Publishes a snapshot of a spec."""
    made = new_snapshot(fingerprint=spec.fingerprint, version=version, statistics=spec.model.empty(), positions={0: 5})
    about = snapshots.About("coin", "bernoulli", "beta", "svb", "exact")
    records = snapshots.encode(made, np.ones(2), about, bus.max_record_bytes)
    bus.publish([Output("coin.posterior", value, key, 0) for key, value in records])


def fill(bus: EmbeddedBus, count: int) -> None:
    """Rows of keys: what a manifest may stand before."""
    bus.publish([Output("coin.posterior", b"x", b"key/%d" % i, 0) for i in range(count)])


def test_without_a_posterior_there_is_nothing_to_compare(bus: EmbeddedBus) -> None:
    assert not compare(OURS, bus, DECLARED)
    names.create_topics(OURS, bus)
    assert not compare(OURS, bus, DECLARED)


@pytest.mark.parametrize("after", [0, 15, 16, 1500])
def test_the_newest_manifest_counts_wherever_it_is(bus: EmbeddedBus, after: int) -> None:
    names.create_topics(OURS, bus)
    fill(bus, 40)
    show(bus, OURS)
    fill(bus, after)
    assert compare(OURS, bus, DECLARED)
    with pytest.raises(NotYet, match="made by another spec"):
        compare(THEIRS, bus, DECLARED)


def test_what_cannot_be_read_is_for_the_restore_to_judge(bus: EmbeddedBus) -> None:
    names.create_topics(OURS, bus)
    bus.publish([Output("coin.posterior", b"junk", snapshots.MANIFEST, 0)])
    assert not compare(THEIRS, bus, DECLARED)


def test_each_shard_is_compared(bus: EmbeddedBus) -> None:
    keyed = spec_of(key={"field": "k", "shards": 2})
    names.create_topics(keyed, bus)
    made = new_snapshot(fingerprint=OURS.fingerprint, version=1, statistics=OURS.model.empty(), positions={0: 5})
    records = snapshots.encode(made, np.ones(2), snapshots.About("coin", "", "", "", ""), bus.max_record_bytes)
    bus.publish([Output("coin.posterior", value, key, 1) for key, value in records])
    with pytest.raises(NotYet):
        compare(keyed, bus, DECLARED)


class Standby:
    """A service that owns nothing, so it never asks the bus."""

    def __init__(self) -> None:
        self.ready, self.closed, self.steps = True, 0, 0

    def step(self, timeout: float) -> None:
        self.steps += 1

    def reset(self) -> None: ...

    def close(self) -> None:
        self.closed += 1


class Away:
    """A bus that is there until it is not."""

    def __init__(self, bus: EmbeddedBus) -> None:
        self._bus, self.away = bus, False

    def ends(self, topic: str) -> dict[int, int]:
        if self.away:
            raise Unavailable("away")
        return self._bus.ends(topic)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop.time, "sleep", lambda _: None)
    monkeypatch.setattr(loop, "NOT_YET_S", 0.0)


@pytest.mark.usefixtures("naps")
def test_a_standby_is_not_ready_while_the_bus_is_away(bus: EmbeddedBus) -> None:
    names.create_topics(OURS, bus)
    now, link, beats = 0.0, Away(bus), list[bool]()

    def beat(ready: bool) -> None:
        nonlocal now
        beats.append(ready)
        now += LOOK_S
        link.away = len(beats) in {2, 3}

    service = Compared(Standby(), OURS, link, DECLARED, lambda: now)  # type: ignore[arg-type]
    loop.run(lambda: service, lambda: len(beats) == 6, beat)
    assert beats == [True, True, False, False, True, True]


@pytest.mark.usefixtures("naps")
def test_a_posterior_of_another_spec_ends_the_service_and_it_waits(
    bus: EmbeddedBus, caplog: pytest.LogCaptureFixture
) -> None:
    """It came when the bus was still empty, and so did another one, which was first to show a posterior."""
    names.create_topics(OURS, bus)
    now, beats, built = 0.0, list[bool](), list[Standby]()

    def build() -> Compared:
        compare(THEIRS, bus, DECLARED)
        built.append(Standby())
        return Compared(built[-1], THEIRS, bus, DECLARED, lambda: now)

    def beat(ready: bool) -> None:
        nonlocal now
        beats.append(ready)
        now += LOOK_S
        if len(beats) == 2:
            show(bus, OURS)
        if len(beats) == 5:
            show(bus, THEIRS, 2)  # somebody has decided for this one

    loop.run(build, lambda: len(beats) == 7, beat)
    assert beats == [True, True, False, False, False, True, True]
    assert [each.closed for each in built] == [1, 1], "the first one left its group"
    told = [record.getMessage() for record in caplog.records]
    assert len([text for text in told if text.startswith("waiting, not ready: the posterior 'coin'")]) == 1


def test_a_posterior_that_is_ours_is_compared_once(bus: EmbeddedBus, monkeypatch: pytest.MonkeyPatch) -> None:
    names.create_topics(OURS, bus)
    calls, now = [], 0.0
    monkeypatch.setattr(comparing, "compare", lambda *given: calls.append(given) or compare(*given))
    service = Compared(Standby(), OURS, bus, DECLARED, lambda: now)
    for version in (1, 2, 3):
        now += LOOK_S
        show(bus, OURS, version)
        service.step(0.0)
    assert len(calls) == 1
