"""Rows of segments in files that chains of one machine share. They are a cache: the log can give them again."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix
from streaminfer.runtime.service import Fatal

VARIABLE: Final = "STREAMINFER_SCRATCH"
"""Names the place of this user's own folder; without it that is the system's folder for temporary files."""
RESERVE: Final = 64 << 20
"""Bytes that are left free."""
PART: Final = 1 << 16
"""Rows that are copied at once."""
OLD_S: Final = 24 * 3600.0
"""Files that nobody has opened for this long are removed."""


class About(NamedTuple):
    """What a file of rows has, and what was found on the way."""

    n_events: int
    n_dead_lettered: int
    digest: str
    columns: int


class Missing(Exception):
    """A file that was here is gone, or is not whole any more."""


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
    """The rows of one segment, by a name that says which. Whoever has the lock may write it."""

    def __init__(self, name: str, columns: int) -> None:
        self._columns = columns
        self.path = folder() / f"{name}.rows"
        self._about = self.path.with_suffix(".json")
        self._lock: BinaryIO | None = None
        self._out: Any = None
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
        """Whether this process may write now; another that could is gone or has not begun."""
        if self._lock is None:
            lock = open(self.path.with_suffix(".lock"), "wb", opener=_private)  # noqa: SIM115 (closed by `close`)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                return False
            self._lock = lock
        return True

    def begin(self, n_rows: int) -> None:
        """Starts to write, if there is room for so many rows."""
        self.expect(n_rows)
        self.remove()  # whoever has the old one mapped must keep what it has
        self._out = open(self.path, "xb", opener=_private)  # noqa: SIM115 (closed by `end` or `close`)
        self._hash, self._n = blake2b(digest_size=16), 0

    def expect(self, n_rows: float) -> None:
        """Raises Fatal if there is no room for so many rows more."""
        needed, free = int(8 * self._columns * n_rows), shutil.disk_usage(self.path.parent).free
        if free < needed + RESERVE:
            raise Fatal(
                f"{self.path.parent}: the rows of a segment need {_mib(needed)} more, with {_mib(RESERVE)} left free, "
                f"and only {_mib(free)} are free: make room, or set {VARIABLE} to a folder with more"
            )

    def add(self, rows: Matrix) -> None:
        data = np.ascontiguousarray(rows, dtype="<f8").tobytes()
        self.expect(len(rows))
        self._out.write(data)
        self._hash.update(data)
        self._n += len(rows)

    def keep(self, wanted: NDArray[np.bool_]) -> None:
        """Leaves out the rows that are not wanted (n,)."""
        if wanted.all():
            return
        self._out.close()
        written = self.path.rename(self.path.with_suffix(".all"))
        rows = np.memmap(written, dtype="<f8", mode="r", shape=(len(wanted), self._columns))
        self.begin(int(wanted.sum()))
        for begin in range(0, len(wanted), PART):
            self.add(rows[begin : begin + PART][wanted[begin : begin + PART]])
        written.unlink()

    def end(self, n_dead_lettered: int) -> About:
        """The file is whole; its description comes last, by a rename."""
        self._out.close()
        self._out = None
        about = About(self._n, n_dead_lettered, self._hash.hexdigest(), self._columns)
        fresh = self._about.with_suffix(f".{os.getpid()}")
        with open(fresh, "w", opener=_private) as out:
            out.write(json.dumps(about._asdict()))
        fresh.replace(self._about)
        return about

    def mapped(self, about: About) -> Matrix:
        """The rows, of which only those that are in use are in memory; raises Missing."""
        if about.n_events == 0:
            return np.empty((0, self._columns))
        try:
            os.utime(self._about)
            return np.asarray(np.memmap(self.path, dtype="<f8", mode="r", shape=(about.n_events, self._columns)))
        except (OSError, ValueError) as error:
            raise Missing(f"{self.path}: {error}") from error

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


def _mib(n_bytes: int) -> str:
    return f"{n_bytes >> 20:,} MiB"


class Check:
    """Compares a file with its digest, a part at a time. Raises Missing."""

    def __init__(self, file: RowsFile, about: About) -> None:
        try:
            self._in = open(file.path, "rb", opener=_private)  # noqa: SIM115 (closed by `step` or `close`)
        except OSError as error:
            raise Missing(f"{file.path}: {error}") from error
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
    """Removes files that nobody has opened for long, whole or not: their spec is at rest, or runs elsewhere."""
    newest: dict[str, float] = {}
    for path in folder().iterdir():
        with suppress(OSError):
            newest[path.stem] = max(newest.get(path.stem, 0.0), path.stat().st_mtime)
    for stem, at in newest.items():
        if time.time() - at > OLD_S:
            _remove(stem)


def remove_earlier(series: str, number: int) -> None:
    """Removes the rows of earlier segments: no chain goes back to one. Whoever has them mapped keeps them."""
    for path in folder().glob(f"{series}-*.json"):
        found = path.stem.removeprefix(f"{series}-").split("-")[0]
        if found.isdecimal() and int(found) < number:
            _remove(path.stem)


def _remove(stem: str) -> None:
    for path in folder().glob(f"{stem}.*"):
        with suppress(OSError):
            path.unlink()
