"""What is written to a terminal: text without anything that it acts upon, and lines that change in place."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

_SUSPECT: Final = re.compile(r"[^\n\t -~]+")
"""Neither ASCII that is only shown, nor the end of a line."""


def printable(text: str) -> str:
    """Text from outside, without anything that a terminal acts upon: controls, marks of direction, what is not seen.

    Each such character is shown as JSON may write it, as \\u001b, so JSON stays the same document.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


class Harmless:
    """A stream whose text is `printable`, with its line ends. The rest is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.raw = stream

    def write(self, text: str) -> int:
        self.raw.write(_SUSPECT.sub(lambda found: printable(found[0]), text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def raw(stream: TextIO) -> TextIO:
    """The stream below, for what is to act upon the terminal."""
    return stream.raw if isinstance(stream, Harmless) else stream


@contextmanager
def harmless() -> Iterator[None]:
    """Meanwhile standard output and error are harmless, whoever writes to them: tables, errors, logs and JSON."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Harmless(sys.stdout), Harmless(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


QUIET_INTERVAL = 5.0
"""Seconds between lines if output is not a terminal."""


class StatusLine:
    """One line about work under way, on standard error."""

    def __init__(self, stream: TextIO | None = None, at_once: bool = True) -> None:
        """`at_once`: whether the first line comes at once if output is not a terminal.

        Otherwise work that takes less than an interval has only its last line.
        """
        self._stream = raw(stream or sys.stderr)
        self._live = self._stream.isatty()
        self._shown_at = -QUIET_INTERVAL if at_once or self._live else time.monotonic()
        self._width = 0

    def show(self, text: str, last: bool = False) -> None:
        """Replaces the line; if nothing can be replaced, at most one line every few seconds and the last.

        The last one is printed as a whole, and may take several lines of the terminal.
        """
        now, text = time.monotonic(), printable(text)
        if not self._live:
            if last or now - self._shown_at >= QUIET_INTERVAL:
                self._shown_at = now
                print(text, file=self._stream, flush=True)
            return
        if last or now - self._shown_at >= 0.1:
            self._shown_at = now
            text = text if last else fitting(text)
            padding = " " * max(0, self._width - len(text))
            self._stream.write(f"\r{text}{padding}" + ("\n" if last else ""))
            self._stream.flush()
            self._width = len(text)

    def clear(self) -> None:
        """Takes the line away, before something else is printed."""
        if self._live and self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()
            self._width = 0


def fitting(text: str) -> str:
    """The text cut to the width of the terminal: a line that wraps could not be replaced."""
    return text[: shutil.get_terminal_size().columns - 1]


def bar(done: float, width: int = 30) -> str:
    """A progress bar for a share from 0 to 1."""
    full = round(max(0.0, min(1.0, done)) * width)
    return f"[{'#' * full}{'.' * (width - full)}] {done:4.0%}"
