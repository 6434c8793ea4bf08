"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from typing import Final

STALE_S: Final = 3600
"""Seconds after which a file that was never finished is one of a process that was killed."""
_END: Final = ".part"


def replace_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Replaces a file so that its readers, and a machine that fails, see the old one or the new one.

    Who may read it, the umask says.
    """
    name = path.with_name(f".{path.name}.{token_hex(8)}{_END}")
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(handle)
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
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
        except OSError:  # another has removed it, or it is not ours to remove
            continue
