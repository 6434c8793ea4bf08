"""Rows of segments in files that chains of one machine share. They are a cache: the log can give them again."""

from __future__ import annotations

import fcntl
import getpass
import json
import logging
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix
from streaminfer.runtime.service import Fatal

log = logging.getLogger(__name__)

VARIABLE: Final = "STREAMINFER_SCRATCH"
"""Names the folder; without it one of this user's in the system's folder for temporary files."""
RESERVE: Final = 64 << 20
"""Bytes that are left free."""
PART: Final = 1 << 16
"""Rows that are copied at once."""
OLD_S: Final = 24 * 3600.0
"""Files that nobody has opened for this long are removed."""
STILL_S: Final = 10.0
"""Who has the lock and has written nothing for this long is not waited for: it may be stopped for good."""
OURS: Final = re.compile(r"[a-z][a-z0-9-]*-[0-9]+-[0-9a-f]{24}(?=\.)")
"""How the names of our files begin."""


class About(NamedTuple):
    """What a file of rows has, and what was found on the way."""

    n_events: int
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
    """The rows of one segment, by a name that says which.

    A file is written under another name and never changed once it has its own. So what a process has open stays as it
    is, whoever removes or replaces the file. The lock only keeps two processes from reading the same events.
    """

    def __init__(self, name: str, columns: int) -> None:
        self._columns = columns
        self.path = folder() / f"{name}.rows"
        self._about = self.path.with_suffix(".json")
        self._lock: BinaryIO | None = None
        self._out: BinaryIO | None = None
        self._part: Path | None = None
        self._whole: BinaryIO | None = None
        self._hash = blake2b(digest_size=16)
        self._n = 0

    def about(self) -> About | None:
        """What the file has, if it is whole."""
        try:
            found = About(**json.loads(self._about.read_bytes()))
            whole = self.path.stat().st_size == 8 * found.n_events * found.columns and found.columns == self._columns
        except (OSError, ValueError, TypeError):
            return None
        return found if whole else None

    def lock(self) -> bool:
        """Whether this process may write now; another that could is gone, stands still, or has not begun."""
        if self._lock is not None:
            return True
        folder()  # anybody may have removed it
        lock = open(self.path.with_suffix(".lock"), "ab")  # noqa: SIM115 (closed by `close`)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stands_still = time.time() - os.fstat(lock.fileno()).st_mtime > STILL_S
            lock.close()
            return stands_still
        self._lock = lock
        return True

    def begin(self, n_positions: int) -> None:
        """Starts to write, if there is room for a row for each of so many positions."""
        self._check_room(8 * self._columns * n_positions)
        self._drop()
        number, name = tempfile.mkstemp(".part", f"{self.path.stem}.", folder())
        self._out, self._part = open(number, "w+b"), Path(name)  # noqa: SIM115 (closed by `close`)
        self._hash, self._n = blake2b(digest_size=16), 0

    def add(self, rows: Matrix) -> None:
        data = np.ascontiguousarray(rows, dtype="<f8").tobytes()
        self._check_room(len(data))
        self._writing.write(data)
        self._hash.update(data)
        self._n += len(rows)
        if self._lock is not None:
            os.utime(self._lock.fileno())

    @property
    def _writing(self) -> BinaryIO:
        if self._out is None:
            raise RuntimeError("no file is being written")
        return self._out

    def keep(self, wanted: NDArray[np.bool_]) -> None:
        """Leaves out the rows that are not wanted (n,)."""
        if wanted.all():
            return
        rows = self._mapped(self._writing, len(wanted))
        self.begin(int(wanted.sum()))
        for begin in range(0, len(wanted), PART):
            self.add(rows[begin : begin + PART][wanted[begin : begin + PART]])

    def end(self, n_dead_lettered: int) -> About:
        """The file is whole; others find it by its name, if the folder is still there."""
        about = About(self._n, n_dead_lettered, self._hash.hexdigest(), self._columns)
        self._writing.flush()
        self._whole, self._out = self._out, None
        try:
            self._show(about)
        except OSError as error:
            log.warning("%s: other processes will read its events again: %s", self.path, error)
        self._drop()
        return about

    def _show(self, about: About) -> None:
        """The description comes last."""
        if self._part is None:
            return
        described = self._part.with_suffix(".about")
        described.write_text(json.dumps(about._asdict()))
        self._about.unlink(missing_ok=True)
        self._part.replace(self.path)
        described.replace(self._about)

    def compared(self, check: Check) -> None:
        """The file is the one that was found right."""
        self._whole = check.file

    def mapped(self, about: About) -> Matrix:
        """The rows, of which only those that are in use are in memory."""
        if self._whole is None:
            raise RuntimeError("the rows are not there yet")
        with suppress(OSError):
            os.utime(self._about)
        return self._mapped(self._whole, about.n_events)

    def _mapped(self, file: BinaryIO, n: int) -> Matrix:
        file.flush()
        if n * self._columns == 0:
            return np.empty((n, self._columns))
        return np.asarray(np.memmap(file, dtype="<f8", mode="r", shape=(n, self._columns)))

    def remove(self) -> None:
        """Another process that has it mapped keeps what it has."""
        self._about.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def _drop(self) -> None:
        """Gives up what is not whole."""
        if self._out is not None:
            self._out.close()
            self._out = None
        if self._part is not None:
            self._part.unlink(missing_ok=True)
            self._part.with_suffix(".about").unlink(missing_ok=True)
            self._part = None

    def close(self) -> None:
        """What is mapped stays mapped."""
        self._drop()
        for file in (self._whole, self._lock):
            if file is not None:
                file.close()
        self._whole = self._lock = None

    def unlock(self) -> None:
        """Others may write."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _check_room(self, n_bytes: int) -> None:
        path = folder()
        free = shutil.disk_usage(path).free
        if free < n_bytes + RESERVE:
            raise Fatal(
                f"{path}: the rows of a segment need {n_bytes >> 20} MiB, and {free >> 20} MiB are free: "
                f"make room, or set {VARIABLE} to a folder with more"
            )


class Check:
    """Compares a file with its digest, a part at a time."""

    def __init__(self, path: Path, about: About) -> None:
        """Raises OSError if the file is gone."""
        self.file: BinaryIO = open(path, "rb")  # noqa: SIM115 (closed by `close`, or by the RowsFile that takes it)
        self._about, self._hash = about, blake2b(digest_size=16)

    def step(self) -> bool | None:
        """Whether the file is right; None before that is known."""
        data = self.file.read(32 << 20)
        if data:
            self._hash.update(data)
            return None
        return self._hash.hexdigest() == self._about.digest

    def close(self) -> None:
        self.file.close()


def remove_old() -> None:
    """Removes files that nobody uses any more: their segments are over, or their machine's user has left.

    The folder may be one that others use too: only what has a name of ours is removed.
    """
    found: dict[str, list[Path]] = {}
    for path in folder().iterdir():
        name = OURS.match(path.name)
        if name is not None:
            found.setdefault(name[0], []).append(path)
    for paths in found.values():
        with suppress(OSError):
            if time.time() - max(path.stat().st_mtime for path in paths) > OLD_S:
                for path in paths:
                    path.unlink(missing_ok=True)
