"""Rows of a file that follow each other, and batches of them that go to the bus by one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streaminfer.wire.events.runs import Run


@dataclass(frozen=True)
class Part:
    """Some rows, and how many bytes of the file they are from the first one's begin to each one's end."""

    run: Run
    ends: NDArray[np.intp]
    raw: bytes = b""
    """These bytes, if the file is text."""
    sound: bool = False
    """Whether a worker will certainly take all of them."""

    @property
    def n(self) -> int:
        return len(self.run)

    @property
    def size(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def split(self, n: int) -> tuple[Part, Part]:
        """The first `n` rows, and the others."""
        at = int(self.ends[n - 1]) if n else 0
        return (
            Part(self.run[:n], self.ends[:n], self.raw[:at], self.sound),
            Part(self.run[n:], self.ends[n:] - at, self.raw[at:], self.sound),
        )


def texts(rows: Sequence[bytes]) -> Part:
    """Rows that are as long as their texts."""
    return Part(rows, np.cumsum([len(row) for row in rows], dtype=np.intp))


class Batches:
    """Parts put together, or split, so that a batch is neither large nor small."""

    def __init__(self, parts: Iterator[Part]) -> None:
        self._parts = parts
        self._rest: Part | None = None

    def next(self, most: int, together: int, size: int) -> list[Part]:
        """At most so many rows, and about `size` bytes of the file; a batch that its size ends has a multiple of
        `together` rows, if it has as many. Empty at the end of the file."""
        batch: list[Part] = []
        rows = used = 0
        while rows == 0 or (rows < most and used < size):
            part = self._next()
            if part is None:
                break
            fitting = min(most - rows, int(np.searchsorted(part.ends, size - used)) + 1)
            over = (rows + fitting) % together
            if fitting < part.n:
                if used + part.ends[fitting - 1] >= size and over < min(fitting, rows + fitting - over):
                    fitting -= over
                part, self._rest = part.split(fitting)
            batch.append(part)
            rows, used = rows + part.n, used + part.size
            if self._rest is not None:
                break
        return batch if rows else []

    def _next(self) -> Part | None:
        part, self._rest = self._rest, None
        return next(self._parts, None) if part is None else part
