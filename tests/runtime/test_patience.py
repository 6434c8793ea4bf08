"""Who serves waits for a bus that is away, and says that it lives."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import BusError, Unavailable
from streaminfer.bus.sqlite.store import FILE_NAME
from streaminfer.runtime import patience
from streaminfer.runtime.patience import patiently


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
