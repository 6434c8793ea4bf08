"""Lines of an NDJSON file all at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from streaminfer.runtime.loading.numbers import Matrix, has_exact_keys, matrix_of
from streaminfer.runtime.loading.parts import Part
from streaminfer.runtime.loading.plain import LONGEST, ends_of, with_line_feeds
from streaminfer.spec import Spec
from streaminfer.wire.events.json_events import EventFormat

_NUMBER: Final = rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_PAIR: Final = re.compile(rb'"([^"\\\x00-\x1f]*)": ?' + _NUMBER)
_NAME: Final = re.compile(rb'"[^"]*":')
_AROUND: Final = b"{} "


class PlainNdjson:
    """Makes parts of the plain lines of one file. Rows are texts as they are; where numbers are wanted, lines are tried
    that are objects of the same numbers."""

    def __init__(self, spec: Spec, form: EventFormat) -> None:
        self._columns = [name.encode() for name in form.columns]
        key = spec.key_field
        self._key = None if key is None or not self._columns else form.columns.index(key.path[0])

    def part(self, window: bytes) -> Part | None:
        """The rows of a window of whole lines; None if some of them are blank or too long."""
        ends = ends_of(window)
        if (np.diff(ends, prepend=0) > LONGEST).any():
            return None
        if self._columns and (matrix := self._matrix(window)) is not None:
            return Part(matrix, ends, window)
        rows: Sequence[bytes] = window.removesuffix(b"\n").split(b"\n")
        if b"\r" in window:
            rows = [row.rstrip(b"\r\n") for row in rows]
        return Part(rows, ends, window) if all(map(bytes.strip, rows)) else None

    def _matrix(self, window: bytes) -> Matrix | None:
        """The numbers that are wanted, if each line has the names of the first one, in their order, and numbers."""
        text = with_line_feeds(window)
        if text is None:
            return None
        names = _PAIR.findall(text[: text.index(b"\n")])
        if len(set(names)) < len(names) or not set(self._columns) <= set(names):
            return None
        pairs = rb", ?".join(rb'"%b": ?(?>%b)' % (re.escape(name), _NUMBER) for name in names)
        if not re.compile(rb"(?:\{%b\}\n)*+" % pairs).fullmatch(text):
            return None
        table = _NAME.sub(b"", text).translate(None, _AROUND)
        matrix = matrix_of(table, len(names), [names.index(name) for name in self._columns])
        return matrix if matrix is not None and has_exact_keys(matrix, self._key) else None
