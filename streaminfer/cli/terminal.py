"""Lines that change in place on a terminal, and come now and then if there is none."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

QUIET_INTERVAL = 5.0
"""Seconds between lines if output is not a terminal."""


class StatusLine:
    """One line about work under way, on standard error."""

    def __init__(self, stream: TextIO | None = None, at_once: bool = True) -> None:
        """`at_once`: whether the first line comes at once if output is not a terminal.

        Otherwise work that takes less than an interval has only its last line.
        """
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._shown_at = -QUIET_INTERVAL if at_once or self._live else time.monotonic()
        self._width = 0

    def show(self, text: str, last: bool = False) -> None:
        """Replaces the line; if nothing can be replaced, at most one line every few seconds and the last.

        The last one is printed as a whole, and may take several lines of the terminal.
        """
        now = time.monotonic()
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
