"""Files as parts: many rows at once where all of them are plain, else row by row. And how a file is gone on with."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol, cast

import numpy as np

from streaminfer.runtime.loading.files import MAX_LINE, Counted, Csv, read_csv, read_ndjson
from streaminfer.runtime.loading.numbers import Matrix, has_exact_keys
from streaminfer.runtime.loading.parts import Part, texts
from streaminfer.runtime.loading.plain import PlainCsv
from streaminfer.runtime.loading.plain_json import PlainNdjson
from streaminfer.runtime.loading.readers import PORTION, Parquet, Reader, read_avro, read_parquet
from streaminfer.spec import Spec
from streaminfer.wire.events.json_events import EventFormat

WINDOW: Final = 1 << 20
_SMALL: Final = 32 << 10
"""Bytes of lines that are looked at together; fewer where some of them are odd."""
_TABLE: Final = 8192
"""Rows of a Parquet file that are looked at together."""


class Place(NamedTuple):
    """How far a file is on the bus: rows, and the proof that they are still the file's.

    The digest is of the file's first `size` bytes. Without a size it is of the JSON texts of the rows.
    """

    rows: int
    digest: str
    size: int | None = None

    @classmethod
    def read(cls, rows: int, note: Any) -> Place:
        return cls(rows, str(note["digest"]), note.get("bytes"))

    def note(self, file: str, done: bool) -> str:
        """What is kept on the bus beside the count of rows."""
        size = {} if self.size is None else {"bytes": self.size}
        return json.dumps({"file": file[:200], "digest": self.digest, **size, "done": done})


class Source(Protocol):
    """The rows of one file, from its begin or from a place on."""

    def skip(self, place: Place) -> bool:
        """Goes on after a place; False if the rows before it are others."""

    def parts(self) -> Iterator[Part]:
        """The rows that follow."""

    def passed(self, part: Part) -> None:
        """Remembers that a part is on its way to the bus."""

    def place(self) -> Place:
        """The place after all that has passed."""


class TextSource:
    """CSV or NDJSON: windows of lines, whose digest is that of the file's bytes."""

    def __init__(
        self, lines: Counted, rows: Callable[[], Iterator[bytes]], plain: Callable[[bytes], Part | None], begin: bytes
    ) -> None:
        """`rows` reads on row by row; `plain` makes a part of a whole window, or says that it cannot. The file has had
        its `begin`."""
        self._lines, self._rows, self._plain = lines, rows, plain
        self._digest = hashlib.sha256(begin)
        self._size, self._count = len(begin), 0
        self._first: Part | None = None

    def skip(self, place: Place) -> bool:
        if place.size is None:
            return self._skip_rows(place)
        left, last = place.size - self._size, b"\n"
        while left > 0 and (window := self._lines.window(WINDOW)):
            found = window[:left]
            self._lines.advance(len(found), found.count(b"\n"))
            self._digest.update(found)
            left, last = left - len(found), found[-1:]
        self._size, self._count = place.size, place.rows
        whole = last == b"\n" or self._lines.window(1)[:2].startswith((b"\n", b"\r\n")) or not self._lines.window(1)
        return left == 0 and whole and self._digest.hexdigest() == place.digest

    def _skip_rows(self, place: Place) -> bool:
        digest = _Texts()
        while digest.count < place.rows and (part := self._odd(_SMALL)) is not None:
            first, self._first = part.split(min(part.n, place.rows - digest.count))
            digest.add(first)
            self.passed(first)
        return (digest.count, digest.hexdigest()) == (place.rows, place.digest)

    def parts(self) -> Iterator[Part]:
        if self._first is not None:
            yield self._first
        size = WINDOW
        while window := self._lines.window(size):
            part = self._plain(window)
            if part is not None:
                self._lines.advance(len(window), part.n)
                yield part
                size = min(WINDOW, 2 * size)
            elif len(window) > _SMALL and size > _SMALL:
                size = max(_SMALL, size // 4)
            elif (odd := self._odd(len(window))) is not None:
                yield odd

    def _odd(self, size: int) -> Part | None:
        """At least so many bytes, read row by row; None at the end of the file."""
        lines, begin = self._lines, self._lines.passed
        lines.kept = kept = bytearray()
        rows, ends, raw = [], [], bytearray()
        for row in self._rows():
            rows.append(row)
            ends.append(lines.passed - begin)
            raw += kept
            kept.clear()
            if ends[-1] >= size:
                break
        lines.kept = None
        raw += kept
        if not raw:
            return None
        if ends:
            ends[-1] = len(raw)  # with the blank lines at the end of a file
        return Part(rows, np.array(ends, dtype=np.intp), bytes(raw))

    def passed(self, part: Part) -> None:
        self._digest.update(part.raw)
        self._size += len(part.raw)
        self._count += part.n

    def place(self) -> Place:
        return Place(self._count, self._digest.hexdigest(), self._size)


class RowSource:
    """A file that is read row by row, whose digest is that of the rows' JSON texts."""

    def __init__(self, rows: Iterator[bytes]) -> None:
        self._rows, self._digest = rows, _Texts()

    def skip(self, place: Place) -> bool:
        while self._digest.count < place.rows and (found := self._some(place.rows - self._digest.count)):
            self.passed(texts(found))
        return self.place() == place

    def parts(self) -> Iterator[Part]:
        while rows := self._some(PORTION):
            yield texts(rows)

    def _some(self, n: int) -> list[bytes]:
        return list(islice(self._rows, min(n, PORTION)))

    def passed(self, part: Part) -> None:
        self._digest.add(part)

    def place(self) -> Place:
        return Place(self._digest.count, self._digest.hexdigest())


class ParquetSource:
    """Tables of a Parquet file, whose digest is that of the whole file."""

    def __init__(self, spec: Spec, lines: Counted, file: str, form: EventFormat) -> None:
        self._opened = Parquet(spec, lines, file)
        lines.stream.seek(0)
        self._digest = hashlib.file_digest(cast(Any, lines.stream), "sha256").hexdigest()
        self._lines, self._columns = lines, form.columns
        self._truths = frozenset(each.path[0] for each in spec.event_fields if each.kind == "binary")
        self._truths -= {each.path[0] for each in spec.event_fields if each.kind != "binary"}
        time, key = self._opened.time, spec.key_field
        self._moments = {} if time is None else {time.path[0]: self._opened.unit}
        self._key = None if key is None or not form.columns else form.columns.index(key.path[0])
        self._count = 0

    def skip(self, place: Place) -> bool:
        if place.size is None:
            digest = _Texts()
            rows = (row for table in self._opened.portions(PORTION) for row in self._opened.events(table))
            while digest.count < place.rows and (found := list(islice(rows, min(PORTION, place.rows - digest.count)))):
                digest.add(texts(found))
            self._count = digest.count
            return (digest.count, digest.hexdigest()) == (place.rows, place.digest)
        self._count = place.rows
        return self.place() == place

    def parts(self) -> Iterator[Part]:
        for table in self._opened.portions(_TABLE, self._count):
            matrix = self._matrix(table)
            if matrix is not None:
                self._lines.lines += len(matrix)
                yield Part(matrix, np.arange(1, len(matrix) + 1) * matrix.itemsize * matrix.shape[1])
                continue
            for begin in range(0, len(table), PORTION):
                yield texts(list(self._opened.events(table.slice(begin, PORTION))))

    def _matrix(self, table: Any) -> Matrix | None:
        from streaminfer.runtime.loading import arrow

        if not self._columns or (arrow.longest(table) or sys.maxsize) > MAX_LINE:
            return None
        matrix = arrow.matrix(table, self._columns, self._truths, self._moments)
        return matrix if matrix is not None and has_exact_keys(matrix, self._key) else None

    def passed(self, part: Part) -> None:
        self._count += part.n

    def place(self) -> Place:
        return Place(self._count, self._digest, self._opened.size)


class _Texts:
    """The digest of rows' JSON texts, as older versions kept it for every file."""

    def __init__(self) -> None:
        self._digest, self.count = hashlib.sha256(), 0

    def add(self, part: Part) -> None:
        for row in part.run:
            self._digest.update(len(row).to_bytes(4, "big"))
            self._digest.update(row)
        self.count += part.n

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


class Opener(Protocol):
    """Opens one kind of file; one without the fields of events is refused. `judged`: whether parts shall say that a
    worker will take all of their rows, if that is easily known."""

    def __call__(self, spec: Spec, lines: Counted, file: str, form: EventFormat, judged: bool, /) -> Source: ...


def _csv(spec: Spec, lines: Counted, file: str, form: EventFormat, judged: bool) -> Source:
    lines.kept = begin = bytearray()
    opened = Csv(spec, lines, file)
    lines.kept = None
    return TextSource(lines, opened.rows, PlainCsv(spec, opened, form, judged).part, bytes(begin))


def _ndjson(spec: Spec, lines: Counted, file: str, form: EventFormat, _judged: bool) -> Source:
    return TextSource(lines, lambda: read_ndjson(spec, lines, file), PlainNdjson(spec, form).part, b"")


def _parquet(spec: Spec, lines: Counted, file: str, form: EventFormat, _judged: bool) -> Source:
    return ParquetSource(spec, lines, file, form)


def _avro(spec: Spec, lines: Counted, file: str, _form: EventFormat, _judged: bool) -> Source:
    return RowSource(read_avro(spec, lines, file))


OPENERS: Final[dict[Reader, Opener]] = {read_csv: _csv, read_ndjson: _ndjson, read_parquet: _parquet, read_avro: _avro}
"""By the readers that read the same files row by row."""
