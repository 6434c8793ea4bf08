"""Notices that the write-ahead log of a bus was removed: what is committed may be in that file alone.

SQLite itself takes a missing one for an empty one. While a bus is open, the file must stay the one that was opened. For
the time between, a file beside it says whether the bus is in use. It still says so after all processes were killed, and
then the write-ahead log must exist. The last connection that is closed removes it, with nothing in it.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from streaminfer.bus.protocol import BusError

CLOSED: Final = b"closed"
OPENING: Final = b"opening"
IN_USE: Final = b"in use"
CLOSING: Final = b"closing"
WIDTH: Final = 8
"""Bytes of the file, for each of these texts."""
SETTLED_S: Final = 1.0
"""For how long what looks wrong is looked at again: another process may just be opening or closing the bus."""
NAP_S: Final = 0.02


class WriteAheadLog:
    """The file beside the bus file at `path`, for one connection."""

    def __init__(self, path: Path) -> None:
        self._bus, self._path = path, Path(f"{path}-wal")
        self._note = Path(f"{path}-state")
        self._opened: tuple[int, int] | None = None

    def opening(self) -> None:
        """Before a connection is made; raises BusError if the file is missing."""
        deadline = time.monotonic() + SETTLED_S
        while self._noted(lambda state: state if state == IN_USE else OPENING) == IN_USE and self._is_missing():
            if time.monotonic() > deadline:
                raise BusError(
                    f"{self._path} is missing, although the bus was in use when its processes ended. Committed records "
                    f"that only this file held are lost. Put the file back. To continue with what {self._bus.name} has "
                    f"without them, or if another program such as sqlite3 has merged them, remove {self._note}"
                )
            time.sleep(NAP_S)

    def opened(self) -> None:
        """After the connection has read or written something: then the file is there."""
        self._opened = self._identity()
        self._noted(lambda _: IN_USE)

    def check(self) -> None:
        """Raises BusError if the file is not the one that was opened."""
        if self._opened is not None and self._identity() != self._opened:
            raise BusError(
                f"{self._path} was removed or replaced while the bus was in use. What this process reads and writes "
                "is only in the old file, and no other process sees it. Stop all processes of this bus; records "
                "that were "
                "committed last are lost"
            )

    def close(self, connection: sqlite3.Connection) -> None:
        """Closes the connection, and notes whether it was the last one."""
        intact = self._opened is not None and self._identity() == self._opened
        if intact:
            self._noted(lambda _: CLOSING)
        try:
            connection.close()
        finally:
            if intact:
                self._noted(self._after_closing)

    def _after_closing(self, state: bytes) -> bytes:
        """Another process may have opened the bus since, or closed it too."""
        if self._identity() is None:
            return CLOSED if state in {IN_USE, CLOSING} else state
        return IN_USE if state == CLOSING else state

    def _is_missing(self) -> bool:
        return self._identity() is None and self._bus.exists() and self._bus.stat().st_size > 0

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        except OSError:
            return self._opened  # it cannot be known; what SQLite meets there it tells itself
        return found.st_dev, found.st_ino

    def _noted(self, change: Callable[[bytes], bytes]) -> bytes:
        """What the file beside the bus said before the change. If it cannot be written, SQLite cannot write either, and
        has its own words for it."""
        state = CLOSED
        with suppress(OSError):
            file = os.open(self._note, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, self._bus.stat().st_mode & 0o666)
            try:
                _lock(file)
                state = os.read(file, WIDTH).strip() or CLOSED
                new = change(state)
                if new != state:
                    os.pwrite(file, new.ljust(WIDTH), 0)
            finally:
                os.close(file)
        return state


def _lock(file: int) -> None:
    """Others hold it for microseconds; one that was stopped meanwhile is not waited for."""
    deadline = time.monotonic() + SETTLED_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(NAP_S / 10)
