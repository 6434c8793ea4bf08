"""The bus for users of Python, on the embedded bus."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streaminfer import Connection, connect, parse_spec
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.wire import snapshots
from tests.made import new_snapshot

SPEC = parse_spec({"name": "demo", "data": {"partitions": 2}, "model": {"kind": "bernoulli", "field": "y"}})
ABOUT = snapshots.About("demo", "bernoulli", "beta", "svb", "exact")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with connect(f"embedded:{tmp_path / 'bus'}") as opened:
        yield opened


def _publish(bus: object, version: int, chunked: bool = False) -> None:
    assert isinstance(bus, EmbeddedBus)
    snapshot = new_snapshot(
        fingerprint=SPEC.fingerprint,
        version=version,
        statistics=np.array([float(version), 1.0]),
        positions={0: version},
        n_events=version + 1,
    )
    natural = SPEC.model.posterior(snapshot.payload.statistics).natural
    records = snapshots.encode(snapshot, natural, ABOUT, snapshots.ENVELOPE + 8 if chunked else 1 << 20)
    bus.publish([Output(names.topic(SPEC, "posterior"), data, key, 0) for key, data in records])


def test_there_is_no_snapshot_before_one_is_published(connection: Connection) -> None:
    assert connection.snapshot(SPEC) is None
    names.create_topics(SPEC, connection.bus)
    assert connection.snapshot(SPEC) is None


def test_looking_makes_no_topics(connection: Connection) -> None:
    connection.snapshot(SPEC)
    assert connection.bus.topics() == {}


def test_the_newest_snapshot(connection: Connection) -> None:
    names.create_topics(SPEC, connection.bus)
    for version in (1, 2, 3):
        _publish(connection.bus, version, chunked=version == 3)
    found = connection.snapshot(SPEC)
    assert found is not None
    assert (found.version, found.frontier) == (3, {"demo.events-0": 3})
    assert found.mean["p"] == pytest.approx(4 / 6)


def test_records_that_are_no_snapshot_are_passed_over(connection: Connection) -> None:
    names.create_topics(SPEC, connection.bus)
    _publish(connection.bus, 1)
    connection.bus.publish([Output(names.topic(SPEC, "posterior"), b"garbage", b"manifest", 0)])
    found = connection.snapshot(SPEC)
    assert found is not None
    assert found.version == 1


def test_subscribe_begins_with_the_newest_and_goes_on_with_every_next(connection: Connection) -> None:
    names.create_topics(SPEC, connection.bus)
    _publish(connection.bus, 1)
    _publish(connection.bus, 2)
    stream = connection.subscribe(SPEC, timeout=10.0)
    assert next(stream).version == 2
    for version in (3, 4):
        _publish(connection.bus, version)
    assert [next(stream).version for _ in range(2)] == [3, 4]
    stream.close()  # type: ignore[attr-defined]


def test_subscribe_makes_no_topics_and_ends_after_its_timeout(connection: Connection) -> None:
    began = time.monotonic()
    assert list(connection.subscribe(SPEC, timeout=0.3)) == []
    assert time.monotonic() - began >= 0.3
    assert not connection.bus.topics()


def test_a_record_that_is_no_snapshot_does_not_end_the_waiting(connection: Connection, tmp_path: Path) -> None:
    """The poll comes back at once with garbage; the snapshot comes later, well within the timeout."""
    names.create_topics(SPEC, connection.bus)
    _publish(connection.bus, 1)
    stream = connection.subscribe(SPEC, timeout=30.0)
    assert next(stream).version == 1

    def publish() -> None:
        with EmbeddedBus(tmp_path / "bus") as bus:
            for _ in range(4):
                bus.publish([Output(names.topic(SPEC, "posterior"), b"garbage", b"other", 0)])
                time.sleep(0.02)
            _publish(bus, 2)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        assert next(stream).version == 2
    finally:
        thread.join()
        stream.close()  # type: ignore[attr-defined]


def test_produce_writes_rows(connection: Connection) -> None:
    assert connection.produce(SPEC, [{"y": 1}, {"y": np.int64(0)}]) == 2
    assert sum(connection.bus.ends(names.topic(SPEC, "events")).values()) == 2


def test_the_address_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMINFER_BUS", f"embedded:{tmp_path / 'there'}")
    with connect() as opened:
        names.create_topics(SPEC, opened.bus)
    assert (tmp_path / "there").is_dir()
