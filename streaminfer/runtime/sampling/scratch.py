"""Rows of segments in files that chains of one machine share. They are a cache: the log can give them again."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import stat
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
"""Names the place of this user's own folder; without it that is the system's folder for temporary files."""
RESERVE: Final = 64 << 20
"""Bytes that are left free."""
PART: Final = 1 << 16
"""Rows that are copied at once."""
OLD_S: Final = 24 * 3600.0
"""Files that nobody has opened for this long are removed."""
STILL_S: Final = 10.0
"""Who has the lock and has written nothing for this long is not waited for: it may be stopped for good."""


class About(NamedTuple):
    """What a file of rows has, and what was found on the way."""

    n_events: int
    n_rows: int
    """As many as events, or more: an event that is a document has several."""
    n_dead_lettered: int
    digest: str
    columns: int


def folder() -> Path:
    """This user's own folder, made if it is missing; raises Fatal if somebody else may have put files there."""
    user = os.getuid()
    path = Path(os.environ.get(VARIABLE) or tempfile.gettempdir()) / f"streaminfer-{user}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
    except OSError as error:
        raise Fatal(
            f"{path}: the folder for rows of segments cannot be made: {error.strerror}; set {VARIABLE} to a folder "
            "in which this user may make one"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user:
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "a folder" if stat.S_ISDIR(found.st_mode) else "a file"
        raise Fatal(
            f"{path}: must be a folder of the user {user}, who alone may write there (got {kind} of the user "
            f"{found.st_uid}): remove it, or set {VARIABLE} to another folder"
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        path.chmod(0o700)
    return path


def _private(path: str, flags: int) -> int:
    """Opens a file that only this user may read; how `open` does it."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


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
        """Whether this process may write now; another that could is gone, stands still, or has not begun."""
        if self._lock is not None:
            return True
        folder()  # anybody may have removed it
        lock = open(self.path.with_suffix(".lock"), "ab", opener=_private)  # noqa: SIM115 (closed by `close`)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stands_still = time.time() - os.fstat(lock.fileno()).st_mtime > STILL_S
            lock.close()
            return stands_still
        self._lock = lock
        return True

    def begin(self, n_rows: int) -> None:
        """Starts to write, if there is room for so many rows."""
        self.expect(n_rows)
        self._drop()
        number, name = tempfile.mkstemp(".part", f"{self.path.stem}.", folder())
        self._out, self._part = open(number, "w+b"), Path(name)  # noqa: SIM115 (closed by `close`)
        self._hash, self._n_events, self._n_rows = blake2b(digest_size=16), 0, 0

    def add(self, rows: Matrix, n_events: int) -> None:
        data = np.ascontiguousarray(rows, dtype="<f8").tobytes()
        self.expect(len(rows))
        self._writing.write(data)
        self._hash.update(data)
        self._n_events += n_events
        self._n_rows += len(rows)
        if self._lock is not None:
            os.utime(self._lock.fileno())

    @property
    def _writing(self) -> BinaryIO:
        if self._out is None:
            raise RuntimeError("no file is being written")
        return self._out

    def keep(self, events: NDArray[np.bool_], lengths: NDArray[np.intp]) -> None:
        """Leaves out the rows of events that are not wanted (n,); each has so many rows (n,)."""
        if events.all():
            return
        wanted = np.repeat(events, lengths)
        rows = self._mapped(self._writing, len(wanted))
        self.begin(int(wanted.sum()))
        for begin in range(0, len(wanted), PART):
            self.add(rows[begin : begin + PART][wanted[begin : begin + PART]], 0)
        self._n_events = int(events.sum())

    def end(self, n_dead_lettered: int) -> About:
        """The file is whole; others find it by its name, if the folder is still there."""
        about = About(self._n_events, self._n_rows, n_dead_lettered, self._hash.hexdigest(), self._columns)
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
        with open(described, "w", opener=_private) as out:
            out.write(json.dumps(about._asdict()))
        self._about.unlink(missing_ok=True)
        self._part.replace(self.path)
        described.replace(self._about)

    def compared(self, check: Check) -> None:
        """The file is the one that was found right."""
        self._whole = check.file

    def mapped(self, about: About) -> Matrix:
        """The rows, of which only those that are in use are in memory. To be called once: the file is closed then."""
        if self._whole is None:
            raise RuntimeError("the rows are not there yet")
        with suppress(OSError):
            os.utime(self._about)
        rows = self._mapped(self._whole, about.n_rows)
        self._whole.close()  # a map outlives its file
        self._whole = None
        return rows

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

    def expect(self, n_rows: float) -> None:
        """Raises Fatal if there is no room for so many rows more."""
        path = folder()
        needed, free = int(8 * self._columns * n_rows), shutil.disk_usage(path).free
        if free < needed + RESERVE:
            raise Fatal(
                f"{path}: the rows of a segment need {_mib(needed)} more, with {_mib(RESERVE)} left free, and only "
                f"{_mib(free)} are free: make room, or set {VARIABLE} to a folder with more"
            )


def _mib(n_bytes: int) -> str:
    return f"{n_bytes >> 20:,} MiB"


class Check:
    """Compares a file with its digest, a part at a time."""

    def __init__(self, path: Path, about: About) -> None:
        """Raises OSError if the file is gone."""
        self.file: BinaryIO = open(path, "rb", opener=_private)  # noqa: SIM115 (closed by `close`, or by the RowsFile)
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
    """Removes files that nobody has opened for long, whole or not: their spec is at rest, or runs elsewhere."""
    newest: dict[str, float] = {}
    for path in folder().iterdir():
        with suppress(OSError):
            newest[_name(path)] = max(newest.get(_name(path), 0.0), path.stat().st_mtime)
    for name, at in newest.items():
        if time.time() - at > OLD_S:
            _remove(name)


def remove_earlier(series: str, number: int) -> None:
    """Removes the rows of earlier segments: no chain goes back to one. Whoever has them mapped keeps them."""
    for path in folder().glob(f"{series}-*.json"):
        found = _name(path).removeprefix(f"{series}-").split("-")[0]
        if found.isdecimal() and int(found) < number:
            _remove(_name(path))


def _name(path: Path) -> str:
    """What all files of the same rows are called, up to their endings."""
    return path.name.split(".")[0]


def _remove(name: str) -> None:
    for path in folder().glob(f"{name}.*"):
        with suppress(OSError):
            path.unlink()
