"""A service waits for a bus that is away, and says that it lives."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import BusError, Unavailable
from streaminfer.bus.sqlite.store import FILE_NAME
from streaminfer.runtime.running import patience
from streaminfer.runtime.running.patience import FIRST_BACKOFF, Patience, Teller, patiently


@pytest.fixture(autouse=True)
def _short_naps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MAX_BACKOFF", 0.05)


def test_a_bus_whose_lock_is_held_is_waited_for(tmp_path: Path) -> None:
    EmbeddedBus(tmp_path).close()
    holder = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None, check_same_thread=False)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    beats: list[bool] = []
    with pytest.raises(Unavailable):
        EmbeddedBus(tmp_path, busy_s=0.1)
    threading.Timer(0.7, holder.close).start()
    began = time.monotonic()
    bus = patiently(lambda: EmbeddedBus(tmp_path, busy_s=0.1), lambda: False, beats.append)
    assert bus is not None
    bus.close()
    assert time.monotonic() - began > 0.5
    assert len(beats) > 1
    assert not any(beats)


def test_a_stop_ends_the_wait() -> None:
    tries: list[bool] = []

    def fail() -> None:
        raise Unavailable("away")

    assert patiently(fail, lambda: len(tries) == 3, tries.append) is None


def test_other_errors_are_not_waited_out() -> None:
    def fail() -> None:
        raise BusError("the broker refuses the log-in")

    with pytest.raises(BusError, match="refuses"):
        patiently(fail, lambda: False, lambda _: None)


def test_a_person_is_told_when_waiting_has_no_end() -> None:
    def fail() -> None:
        raise Unavailable("away")

    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"the bus cannot be used: away\. Gave up after 0 s \(--bus-timeout\)"):
        patiently(fail, lambda: False, lambda _: None, at_most_s=0.3)
    assert 0.3 <= time.monotonic() - began < 5


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_cause_is_told_when_it_is_new_and_then_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    teller = Teller(logging.getLogger("test"), clock)
    for second in range(150):
        clock.now = second
        teller.tell(f"full at {second}")
        if second == 70:
            teller.tell("read-only")
    told = [record.getMessage() for record in caplog.records]
    assert told == ["full at 0", "full at 60", "read-only", "full at 120"]


def test_pauses_grow_and_are_short_again_only_after_a_while_of_good_work() -> None:
    clock = Clock()
    waits = Patience(logging.getLogger("test"), clock)
    assert [waits.failed("x") for _ in range(3)] == [0.05, 0.05, 0.05], "the longest here"
    waits.worked()
    clock.now += 1
    waits.worked()
    assert waits.failed("x") == FIRST_BACKOFF


def test_a_bus_that_takes_every_second_try_is_tried_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MAX_BACKOFF", 2.0)
    waits, pauses = Patience(logging.getLogger("test"), Clock()), []
    for _ in range(8):
        pauses.append(waits.failed("full"))
        waits.worked()
    assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])
