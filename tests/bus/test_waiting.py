"""A waiting poll: cheap, woken by any commit, and measured by the clock it was given."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output, Partition, Poll, Topic
from streaminfer.bus.sqlite.reader import LONGEST_NAP_S
from streaminfer.bus.sqlite.store import Store

P0 = Partition("t", 0)


class Time:
    """A clock that moves only by sleeping; `then` happens at a given time."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.naps: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


def test_the_version_changes_with_every_commit_of_anyone(tmp_path: Path) -> None:
    mine, other = Store(tmp_path, 1.0), Store(tmp_path, 1.0)
    seen = {mine.version()}
    assert mine.version() in seen
    for store in (mine, other, mine, other):
        with store.write() as connection:
            connection.execute("UPDATE catalog SET version = version + 1")
        assert mine.version() not in seen
        seen.add(mine.version())
    with mine.read():
        pass
    assert mine.version() in seen
    mine.close()
    other.close()


def test_naps_grow_and_end_at_the_timeout(tmp_path: Path) -> None:
    fake = Time()
    with EmbeddedBus(tmp_path, clock=fake.clock, monotonic=fake.clock, sleep=fake.sleep) as bus:
        bus.create([Topic("t", 1)])
        began = fake.now
        assert bus.reader({P0: 0}).poll(1.0) == Poll()
        assert fake.now - began == pytest.approx(1.0)
        assert fake.naps[0] == 0.001
        assert max(fake.naps) == LONGEST_NAP_S <= 0.02


def test_an_idle_poll_does_not_read_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Time()
    with EmbeddedBus(tmp_path, clock=fake.clock, monotonic=fake.clock, sleep=fake.sleep) as bus:
        bus.create([Topic("t", 1)])
        reads: list[float] = []
        read = bus._store.read
        monkeypatch.setattr(bus._store, "read", lambda: reads.append(fake.now) or read())
        bus.reader({P0: 0}).poll(10.0)
        assert len(reads) <= 2


def test_a_poll_sees_the_writes_of_its_own_bus(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 1)])
        reader = bus.reader({P0: 0})
        assert reader.poll(0) == Poll()
        bus.publish([Output("t", b"x")])
        assert len(reader.poll(0).slices[0].records) == 1


def test_a_commit_of_another_connection_ends_the_wait_soon(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus, EmbeddedBus(tmp_path) as other:
        bus.create([Topic("t", 1)])
        woken: list[float] = []

        def sleep(seconds: float) -> None:
            time.sleep(seconds)
            if not woken:
                other.publish([Output("t", b"x")])
                woken.append(time.monotonic())

        bus._store.sleep = sleep
        assert len(bus.reader({P0: 0}).poll(30).slices) == 1
        assert time.monotonic() - woken[0] < 5


def test_a_waiting_member_keeps_its_lease(tmp_path: Path) -> None:
    fake = Time()
    times = {"clock": fake.clock, "monotonic": fake.clock, "sleep": fake.sleep}
    with EmbeddedBus(tmp_path, session_s=6, **times) as bus, EmbeddedBus(tmp_path, session_s=6, **times) as other:
        bus.create([Topic("t", 1)])
        member = bus.member("g", ["t"])
        member.poll(1)
        member.seek(P0, 0)
        assert member.poll(60) == Poll()
        newcomer = other.member("g", ["t"])
        assert newcomer.poll(0) == Poll(), "the only partition is still the first member's"
        assert member.assignment == {P0}


def test_leases_are_written_a_few_times_a_session_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Time()
    with EmbeddedBus(tmp_path, session_s=9, clock=fake.clock, monotonic=fake.clock, sleep=fake.sleep) as bus:
        bus.create([Topic("t", 1)])
        member = bus.member("g", ["t"])
        member.poll(1)
        writes: list[float] = []
        write = bus._store.write
        monkeypatch.setattr(bus._store, "write", lambda: writes.append(fake.now) or write())
        for _ in range(300):
            member.poll(0.1)
        assert 8 <= len(writes) <= 11
