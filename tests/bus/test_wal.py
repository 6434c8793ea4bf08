"""The write-ahead log of the embedded bus is removed: an error, before any process goes on without it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import BusError, Output, Topic
from streaminfer.bus.sqlite.store import FILE_NAME

KILLED = """
import os, signal, sys
from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output, Topic
bus = EmbeddedBus(sys.argv[1])
bus.create([Topic("t", 1)])
bus.publish([Output("t", b"x")])
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def use(folder: Path, how: str) -> None:
    """Another process writes a record and is killed, or ends without a word to the bus."""
    code = subprocess.run([sys.executable, "-c", KILLED, str(folder), how], check=False).returncode
    assert code == (-signal.SIGKILL if how == "killed" else 0)


def wal(folder: Path) -> Path:
    return folder / f"{FILE_NAME}-wal"


def test_a_log_that_is_gone_after_a_kill_is_an_error_until_it_is_accepted(tmp_path: Path) -> None:
    use(tmp_path, "killed")
    kept = wal(tmp_path).read_bytes()
    wal(tmp_path).unlink()
    for _ in range(2):
        with pytest.raises(BusError, match=r"-wal is missing, .* Put the file back\. .* remove .*-state"):
            EmbeddedBus(tmp_path)
        assert not wal(tmp_path).exists()
    wal(tmp_path).write_bytes(kept)
    with EmbeddedBus(tmp_path) as bus:
        assert bus.ends("t") == {0: 1}


def test_who_accepts_the_loss_goes_on_with_what_is_left(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("kept", 1)])
    use(tmp_path, "killed")
    wal(tmp_path).unlink()
    (tmp_path / f"{FILE_NAME}-state").unlink()
    with EmbeddedBus(tmp_path) as bus:
        assert set(bus.topics()) == {"kept"}


@pytest.mark.parametrize("replaced", [False, True])
def test_a_log_that_goes_while_the_bus_is_open_is_an_error_for_all(tmp_path: Path, replaced: bool) -> None:
    bus = EmbeddedBus(tmp_path)
    bus.create([Topic("t", 1)])
    wal(tmp_path).unlink()
    if replaced:
        wal(tmp_path).write_bytes(b"")
    for attempt in (lambda: bus.publish([Output("t", b"x")]), lambda: bus.ends("t")):
        with pytest.raises(BusError, match="-wal was removed or replaced while the bus was in use"):
            attempt()
    if not replaced:
        with pytest.raises(BusError, match="-wal is missing"):
            EmbeddedBus(tmp_path)
    bus.close()
    if not replaced:
        with pytest.raises(BusError, match="-wal is missing"):
            EmbeddedBus(tmp_path)


def test_ends_of_any_kind_are_no_error(tmp_path: Path) -> None:
    """Closed, not closed at all, killed and opened again, and a bus of an older version, which has no such file."""
    for how in ("ended", "killed", "killed", "ended"):
        use(tmp_path, how)
        assert wal(tmp_path).exists() == (how == "killed")
        with EmbeddedBus(tmp_path) as bus, EmbeddedBus(tmp_path) as other:
            assert bus.ends("t") == other.ends("t")
        assert not wal(tmp_path).exists()
    (tmp_path / f"{FILE_NAME}-state").unlink()
    with closing(EmbeddedBus(tmp_path)) as bus:
        assert bus.ends("t") == {0: 4}


def test_many_who_open_and_close_at_once_see_nothing_missing(tmp_path: Path) -> None:
    with EmbeddedBus(tmp_path) as bus:
        bus.create([Topic("t", 1)])
    failed: list[BaseException] = []

    def come_and_go() -> None:
        try:
            for _ in range(40):
                with EmbeddedBus(tmp_path) as bus:
                    bus.publish([Output("t", b"x")])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    with EmbeddedBus(tmp_path) as bus:
        assert bus.ends("t") == {0: 160}
    assert os.listdir(tmp_path).count(f"{FILE_NAME}-wal") == 0
