"""Files that gzip has made smaller: expanded a little at a time while their lines are read."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from gzip import GzipFile
from pathlib import Path
from typing import BinaryIO, Final, cast

from streaminfer.runtime.loading.files import Counted, FileError

ENDING: Final = ".gz"
_REMEDY: Final = "get the file again, and start again: what is on the bus is not repeated"


class Expanded(Counted):
    """Lines of a file in gzip; its bytes are those of the file as it is."""

    def __init__(self, packed: BinaryIO, file: str) -> None:
        stream = io.BufferedReader(cast(io.RawIOBase, GzipFile(fileobj=packed)))
        super().__init__(cast(BinaryIO, stream), file)
        self._packed = packed
        self._damage: Exception | None = None

    @property
    def n_read(self) -> int:
        return self._packed.tell()

    def _line(self) -> bytes:
        return self._guarded(super()._line)

    def _some(self, size: int) -> bytes:
        """Piece by piece, so that what comes before a damage is not lost."""
        found = bytearray()
        while len(found) < size:
            try:
                piece = self._guarded(partial(self._piece, size - len(found)))
            except FileError:
                if b"\n" not in found:
                    raise
                return bytes(found[: found.rfind(b"\n") + 1])
            if not piece:
                break
            found += piece
        return bytes(found)

    def _piece(self, size: int) -> bytes:
        return self.stream.read1(size)  # type: ignore[attr-defined,no-any-return]

    def _guarded(self, read: Callable[[], bytes]) -> bytes:
        """What is read; a damage is told now and whenever more is asked for."""
        try:
            if self._damage is not None:
                raise self._damage
            found = read()
            if not found and self.n_read == 0:
                raise EOFError
            return found
        except EOFError as error:
            self._damage = error
            raise FileError(f"{self._file}: the gzip file is cut off after line {self.lines}; {_REMEDY}") from None
        except (OSError, zlib.error) as error:
            self._damage = error
            why = f"{error}"[:200]
            raise FileError(
                f"{self._file}: is damaged, or is not gzip, after line {self.lines} ({why}); {_REMEDY}"
            ) from error


@contextmanager
def lines_of(path: Path) -> Iterator[Counted]:
    """The lines of a file, expanded if its name says that it is compressed by gzip."""
    with path.open("rb") as stream:
        yield (Expanded if path.name.lower().endswith(ENDING) else Counted)(stream, str(path))
