"""Lines of a CSV file all at once, where a look at all of them proves that the row reader would say the same.

So a window of lines is taken here only if it has no quotes, and as many cells in each line as the header. The cells of
a column become JSON by its converter, unless one look shows that all of them would stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring as quoted
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.checks import check_matrix
from streaminfer.runtime.loading.cells import SHORT, Converter, looks, number, truth
from streaminfer.runtime.loading.files import Csv
from streaminfer.runtime.loading.numbers import has_exact_keys, matrix_of
from streaminfer.runtime.loading.parts import Part
from streaminfer.spec import Spec
from streaminfer.wire.events.json_events import EventFormat

LONGEST: Final = 64 << 10
"""Bytes of a line: however they are written in JSON, the event is no longer than a record may be."""
_MOST_NAMES: Final = 512 << 10
_BUT_ENDS: Final = bytes(set(range(256)) - set(b",\n"))
_NUMBERS: Final = re.compile(rf"(?:(?>{SHORT})\n)*+".encode()).fullmatch
_SIMPLE: Final = re.compile(rb'[^"\\\x00-\x09\x0b-\x1f]*+').fullmatch
"""Texts, one a line, that only want quotes around them."""


class PlainCsv:
    """Makes parts of the plain lines of one file."""

    def __init__(self, spec: Spec, opened: Csv, form: EventFormat, judged: bool) -> None:
        """`judged`: whether to say of parts that a worker will take all of their rows."""
        self._spec, self._columns, self._width = spec, opened.columns, len(opened.header)
        self._fields = spec.event_fields
        at = {name: i for i, name in enumerate(opened.header)}
        self._too_wide = sum(len(name.encode()) * 6 for name in opened.header) > _MOST_NAMES
        self._packed = [at[name] for name in form.columns] if set(form.columns) <= at.keys() else []
        key = spec.key_field
        self._key = None if key is None or not self._packed else self._packed.index(at[key.path[0]])
        self._judged = [at[each.path[0]] for each in self._fields] if judged and not self._is_coded() else []

    def _is_coded(self) -> bool:
        """Whether any field is something other than a number."""
        return any(each.is_text or not each.is_number for each in self._fields)

    def part(self, window: bytes) -> Part | None:
        """The rows of a window of whole lines; None if they are not plain."""
        text = plain_lines(window)
        if text is None or self._too_wide or not self._is_even(text):
            return None
        ends = ends_of(window)
        if (np.diff(ends, prepend=0) > LONGEST).any():
            return None
        if self._packed:
            matrix = matrix_of(text, self._width, self._packed)
            if matrix is not None and has_exact_keys(matrix, self._key):
                return Part(matrix, ends, window)
        rows, sound = self._texts(text)
        return Part(rows, ends, window, sound)

    def _is_even(self, text: bytes) -> bool:
        """Whether all lines have as many cells as the header, and none is blank."""
        if self._width == 1 and (text.startswith(b"\n") or b"\n\n" in text):
            return False
        return text.translate(None, _BUT_ENDS) == (b"," * (self._width - 1) + b"\n") * text.count(b"\n")

    def _texts(self, text: bytes) -> tuple[Sequence[bytes], bool]:
        """The rows as JSON texts, and whether a worker will certainly take them."""
        cells = text[:-1].replace(b"\n", b",").split(b",")
        before, columns, numeric = b"{", [], set()
        for i, column in enumerate(self._columns):
            if column is None:
                continue
            name, made = column
            found, form, is_number = _column(cells[i :: self._width], made)
            before += b"" if before == b"{" else b","
            before += name.encode().replace(b"%", b"%%") + form
            columns.append(found)
            if is_number:
                numeric.add(i)
        template = before + b"}"
        rows = [template % row for row in zip(*columns, strict=True)]
        return rows, bool(self._judged) and numeric.issuperset(self._judged) and self._all_good(text)

    def _all_good(self, text: bytes) -> bool:
        matrix = matrix_of(text, self._width, self._judged)
        return matrix is not None and not check_matrix(self._fields, matrix).rejected


def _column(cells: Sequence[bytes], made: Converter) -> tuple[Sequence[bytes], bytes, bool]:
    """The cells of a column as they stand in JSON, how they stand there, and whether all are numbers as they were."""
    lines = b"\n".join(cells) + b"\n"
    if made in _OF_NUMBERS and _NUMBERS(lines):
        return cells, b"%b", True
    if made is quoted and _SIMPLE(lines):
        return cells, b'"%b"', False
    return [made(cell.decode()).encode() for cell in cells], b"%b", False


_OF_NUMBERS: Final[tuple[Callable[[str], str], ...]] = (number, truth, looks)


def plain_lines(window: bytes) -> bytes | None:
    """The lines of a window, each with a mere line feed at its end; None if there is anything odd in them."""
    return None if b'"' in window or b"\0" in window or not _is_utf8(window) else with_line_feeds(window)


def with_line_feeds(window: bytes) -> bytes | None:
    """The lines of a window, each with a mere line feed at its end; None if a carriage return is anywhere else."""
    if b"\r" in window:
        if window.count(b"\r") != window.count(b"\r\n"):
            return None
        window = window.replace(b"\r\n", b"\n")
    return window if window.endswith(b"\n") else window + b"\n"


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def ends_of(window: bytes) -> NDArray[np.intp]:
    """Where each line of a window ends."""
    ends = np.flatnonzero(np.frombuffer(window, np.uint8) == ord("\n")) + 1
    return ends if window.endswith(b"\n") else np.append(ends, len(window))
