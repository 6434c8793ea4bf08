"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import mkstemp
from typing import Final

STALE_S: Final = 3600
"""Seconds after which a file that was never finished is one of a process that was killed."""
MODE: Final = 0o644
"""For a reader in another container, with another user."""
_END: Final = ".part"


def replace_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Replaces a file so that its readers, and a machine that fails, see the old one or the new one."""
    handle, name = mkstemp(prefix=f".{path.name}.", suffix=_END, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, MODE)
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(handle)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_unfinished(path: Path) -> None:
    """Removes what killed writers of a file have left."""
    for each in path.parent.glob(f".{path.name}.*{_END}"):
        try:
            if time.time() - each.stat().st_mtime > STALE_S:
                each.unlink(missing_ok=True)
        except FileNotFoundError:
            continue
