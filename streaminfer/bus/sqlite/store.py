"""One connection to a bus file: transactions, patience with the lock, and errors in the bus's own words."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from streaminfer.bus.protocol import BusError, Full, Unavailable
from streaminfer.bus.sqlite import filesystem, schema
from streaminfer.bus.sqlite.wal import WriteAheadLog

FILE_NAME = "bus.sqlite3"
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
"""SQLite's last one is the race of many processes that open a write-ahead log at once: it passes like the others."""

REMEDIES = {
    sqlite3.SQLITE_FULL: "free some space on its disk",
    sqlite3.SQLITE_READONLY: "its directory, or the file system, cannot be written to",
    sqlite3.SQLITE_CANTOPEN: "its directory must exist on a writable disk, and this user must be allowed to "
    "write to it",
    sqlite3.SQLITE_IOERR: "its disk is broken, or full to a limit of this user or process",
    sqlite3.SQLITE_BUSY: "another process holds it",
}
NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
PASSING = {errno.ENOSPC: Full, errno.EDQUOT: Full, errno.EROFS: Unavailable}
"""What a file system may get over."""

T = TypeVar("T")


def _make_private(path: Path) -> None:
    """Makes the directory and the file of a new bus for this user alone: what is in events is for no others.

    Those that exist keep their rights; SQLite gives the files beside it the rights of the file.
    """
    if not path.parent.is_dir():
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        path.parent.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


class Store:
    """The connection and the clocks. Every transaction sees `catalog_version`, the version of topics and partitions."""

    def __init__(
        self,
        directory: Path,
        busy_s: float,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.clock, self.monotonic, self.sleep = clock, monotonic, sleep
        self.path = directory.resolve() / FILE_NAME
        self.catalog_version = 0
        self._busy_s = busy_s
        self._process = os.getpid()
        self._own_commits = 0
        self._connection: sqlite3.Connection | None = None
        if filesystem.MOUNTS.exists():
            filesystem.refuse_network(self.path, filesystem.MOUNTS.read_text())
        try:
            _make_private(self.path)
        except OSError as error:
            kind = PASSING.get(error.errno or 0, BusError)
            raise kind(f"the directory of the bus cannot be created: {error}") from error
        self._wal = WriteAheadLog(self.path)
        self._wal.opening()
        with self._errors():
            self._open()
        # If a program forgets to close it, the next one does not report a missing file.
        self._closed = weakref.finalize(self, _close, self._usable(), self._wal, self._process)

    def _open(self) -> None:
        # timeout=0: patience is ours (`_patiently`), with a deadline and shorter naps than SQLite's.
        connection = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            self._patiently(lambda: self._prepare(connection))
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._wal.opened()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if not schema.is_empty(connection):
            schema.check(connection, str(self.path))
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        if schema.is_empty(connection):
            with self._transaction(connection, lambda: connection.execute("BEGIN IMMEDIATE")):
                if schema.is_empty(connection):
                    schema.make(connection)
        if schema.is_old(connection):
            with self._transaction(connection, lambda: connection.execute("BEGIN IMMEDIATE")):
                schema.upgrade(connection)
        schema.check(connection, str(self.path))
        if schema.lacks_ids(connection):
            with self._transaction(connection, lambda: connection.execute("BEGIN IMMEDIATE")):
                if schema.lacks_ids(connection):
                    schema.add_ids(connection)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its beginning; all of it is durable at the end, or nothing."""
        connection = self._usable()
        with self._errors():
            with self._transaction(connection, lambda: connection.execute("BEGIN IMMEDIATE")):
                self._see_catalog(connection)
                yield connection
            self._own_commits += 1

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A transaction that sees one state of the file throughout."""
        connection = self._usable()
        with self._errors(), self._transaction(connection, lambda: self._begin_read(connection)):
            yield connection

    def version(self) -> tuple[int, int]:
        """Something that differs from what it was whenever anyone, this connection too, has committed since."""
        connection = self._usable()
        with self._errors():
            row = self._patiently(lambda: connection.execute("PRAGMA data_version").fetchone())
        return int(row[0]), self._own_commits

    @property
    def is_open(self) -> bool:
        """Whether this process may use the connection."""
        return self._connection is not None and self._process == os.getpid()

    def close(self) -> None:
        """Releases the file. In a forked child nothing is touched: the connection is the parent's."""
        if self._connection is not None and self._process == os.getpid():
            connection, self._connection = self._connection, None
            self._closed.detach()
            with self._errors():
                self._wal.close(connection)

    def _usable(self) -> sqlite3.Connection:
        if self._process != os.getpid():
            raise BusError("this bus was opened before a fork, by another process; open one bus in each process")
        if self._connection is None:
            raise BusError("this bus is closed")
        self._wal.check()
        return self._connection

    def _see_catalog(self, connection: sqlite3.Connection) -> None:
        (self.catalog_version,) = connection.execute("SELECT version FROM catalog").fetchone()

    def _begin_read(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")
        try:
            self._see_catalog(connection)  # BEGIN alone fixes nothing: the first SELECT takes the snapshot
        except sqlite3.Error:
            connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection, begin: Callable[[], object]) -> Iterator[None]:
        try:
            self._patiently(begin)
            yield
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _patiently(self, action: Callable[[], T]) -> T:
        """Repeats an action while another connection holds the lock, up to the deadline."""
        deadline = self.monotonic() + self._busy_s
        nap = 0.0005
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                # The low byte is the primary code; the rest says which kind of busy.
                busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in BUSY
                if not busy or self.monotonic() >= deadline:
                    raise
            self.sleep(nap)
            nap = min(nap * 1.5, 0.02)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            what, kind = REMEDIES.get(code), Full if code in NO_ROOM else Unavailable
            raise kind(f"{self.path}: {error}" + (f": {what}" if what else "")) from error
        except sqlite3.Error as error:
            # SQLite's "malformed" and "not a database" come as the base class itself.
            what = " is damaged or not a bus" if type(error) is sqlite3.DatabaseError else ""
            raise BusError(f"{self.path}{what}: {error}") from error


def _close(connection: sqlite3.Connection, wal: WriteAheadLog, process: int) -> None:
    with suppress(sqlite3.Error):
        if process == os.getpid():
            wal.close(connection)
