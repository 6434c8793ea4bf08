"""Rows of segments in files that chains of one machine share. They are a cache: the log can give them again."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import shutil
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix
from streaminfer.runtime.service import Fatal

VARIABLE: Final = "STREAMINFER_SCRATCH"
"""Names the folder; without it one of this user's in the system's folder for temporary files."""
RESERVE: Final = 64 << 20
"""Bytes that are left free."""
PART: Final = 1 << 16
"""Rows that are copied at once."""
OLD_S: Final = 24 * 3600.0
"""Files that nobody has opened for this long are removed."""


class About(NamedTuple):
    """What a file of rows has, and what was found on the way."""

    n_events: int
    n_rows: int
    """As many as events, or more: an event that is a document has several."""
    n_dead_lettered: int
    digest: str
    columns: int


def folder() -> Path:
    """The folder, made if it is missing."""
    given = os.environ.get(VARIABLE)
    path = Path(given) if given else Path(tempfile.gettempdir()) / f"streaminfer-{getpass.getuser()}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Fatal(f"{path}: no folder for rows of segments can be made: {error.strerror}; set {VARIABLE}") from error
    return path


class RowsFile:
    """The rows of one segment, by a name that says which. Whoever has the lock may write it."""

    def __init__(self, name: str, columns: int) -> None:
        self._columns = columns
        self.path = folder() / f"{name}.rows"
        self._about = self.path.with_suffix(".json")
        self._lock: BinaryIO | None = None
        self._out: Any = None
        self._hash = blake2b(digest_size=16)
        self._n_events = self._n_rows = 0

    def about(self) -> About | None:
        """What the file has, if it is whole."""
        try:
            found = About(**json.loads(self._about.read_bytes()))
            whole = self.path.stat().st_size == 8 * found.n_rows * found.columns and found.columns == self._columns
        except (OSError, ValueError, TypeError):
            return None
        return found if whole else None

    def lock(self) -> bool:
        """Whether this process may write now; another that could is gone or has not begun."""
        if self._lock is None:
            lock = open(self.path.with_suffix(".lock"), "wb")  # noqa: SIM115 (closed by `close`)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                return False
            self._lock = lock
        return True

    def begin(self, n_positions: int) -> None:
        """Starts to write, if there is room for a row for each of so many positions."""
        self._check_room(8 * self._columns * n_positions)
        self._about.unlink(missing_ok=True)
        self._out = open(self.path, "wb")  # noqa: SIM115 (closed by `end` or `close`)
        os.fchmod(self._out.fileno(), 0o600)
        self._hash, self._n_events, self._n_rows = blake2b(digest_size=16), 0, 0

    def add(self, rows: Matrix, n_events: int) -> None:
        data = np.ascontiguousarray(rows, dtype="<f8").tobytes()
        self._check_room(len(data))
        self._out.write(data)
        self._hash.update(data)
        self._n_events += n_events
        self._n_rows += len(rows)

    def keep(self, events: NDArray[np.bool_], lengths: NDArray[np.intp]) -> None:
        """Leaves out the rows of events that are not wanted (n,); each has so many rows (n,)."""
        if events.all():
            return
        wanted, n_events = np.repeat(events, lengths), int(events.sum())
        self._out.close()
        written = self.path.rename(self.path.with_suffix(".all"))
        rows = np.memmap(written, dtype="<f8", mode="r", shape=(len(wanted), self._columns))
        self.begin(int(wanted.sum()))
        for begin in range(0, len(wanted), PART):
            self.add(rows[begin : begin + PART][wanted[begin : begin + PART]], 0)
        self._n_events = n_events
        written.unlink()

    def end(self, n_dead_lettered: int) -> About:
        """The file is whole; its description comes last, by a rename."""
        self._out.close()
        self._out = None
        about = About(self._n_events, self._n_rows, n_dead_lettered, self._hash.hexdigest(), self._columns)
        fresh = self._about.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(about._asdict()))
        fresh.replace(self._about)
        return about

    def mapped(self) -> Matrix:
        """The rows, of which only those that are in use are in memory."""
        about = self.about()
        if about is None or about.n_rows == 0:
            return np.empty((0, self._columns))
        os.utime(self._about)
        return np.asarray(np.memmap(self.path, dtype="<f8", mode="r", shape=(about.n_rows, self._columns)))

    def remove(self) -> None:
        """Another process that has it mapped keeps what it has."""
        self._about.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Gives up what is not whole."""
        if self._out is not None:
            self._out.close()
            self._out = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _check_room(self, n_bytes: int) -> None:
        free = shutil.disk_usage(self.path.parent).free
        if free < n_bytes + RESERVE:
            raise Fatal(
                f"{self.path.parent}: the rows of a segment need {n_bytes >> 20} MiB, and {free >> 20} MiB are free: "
                f"make room, or set {VARIABLE} to a folder with more"
            )


class Check:
    """Compares a file with its digest, a part at a time."""

    def __init__(self, file: RowsFile, about: About) -> None:
        self._in = open(file.path, "rb")  # noqa: SIM115 (closed by `step` or `close`)
        self._about, self._hash = about, blake2b(digest_size=16)

    def step(self) -> bool | None:
        """Whether the file is right; None before that is known."""
        data = self._in.read(32 << 20)
        if data:
            self._hash.update(data)
            return None
        self.close()
        return self._hash.hexdigest() == self._about.digest

    def close(self) -> None:
        self._in.close()


def remove_old() -> None:
    """Removes files that nobody uses any more: their segments are over, or their machine's user has left."""
    for about in folder().glob("*.json"):
        try:
            if time.time() - about.stat().st_mtime > OLD_S:
                for suffix in (".json", ".rows", ".lock"):
                    about.with_suffix(suffix).unlink(missing_ok=True)
        except OSError:
            continue
