"""Text files of events: each row becomes the JSON text of an event, which a data format then puts into records."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from json.encoder import encode_basestring as quoted
from typing import Any, BinaryIO, Final

from streaminfer.models.events import Field
from streaminfer.models.reasons import ragged
from streaminfer.runtime.loading.cells import converters
from streaminfer.spec import Spec
from streaminfer.topics import declarations

MAX_LINE: Final = declarations()["events"].max_bytes
MOST_BLANK: Final = 16 * MAX_LINE
"""Bytes that one row may take with the blank lines before it: a small gzip file may expand to nothing else."""


class FileError(ValueError):
    """A file that cannot be read as events; names the file, the line, the rule and the remedy."""


class BadFile(ValueError):
    """What is wrong with a file, for a FileError that says which file and line."""


class Counted:
    """Lines of a binary file, none longer than MAX_LINE, counting lines and bytes as they pass.

    They pass one by one, or many as a window that was looked at. What was looked at and has not passed is held.
    """

    def __init__(self, stream: BinaryIO, file: str, live: bool = False) -> None:
        """`live`: whether the stream may pause, so that a window has what is there."""
        self.stream, self._file, self._live = stream, file, live
        self._held, self._at = b"", 0
        self.lines = self.passed = 0
        self.kept: bytearray | None = None
        """If there is one, the lines that pass one by one are added to it. Whoever set it empties it after each row."""
        self.zoneless = False
        """Whether the file's own type for the time of events has no zone."""

    @property
    def n_read(self) -> int:
        """How many bytes of the file were read."""
        return self.passed

    def window(self, size: int) -> bytes:
        """The next whole lines, at most about twice so many bytes; empty at the end of the file.

        The last line of a file may lack its end.
        """
        if self._at == len(self._held):
            self._held, self._at = self._filled(size), 0
        begin = self._at
        if len(self._held) - begin <= 2 * size:
            return self._held[begin:] if begin else self._held
        end = self._held.rfind(b"\n", begin, begin + size) + 1 or self._held.find(b"\n", begin) + 1
        return self._held[begin : end or len(self._held)]

    def advance(self, size: int, lines: int) -> None:
        """Lets so many bytes of the window pass, which are whole lines."""
        self._at += size
        self.passed += size
        self.lines += lines

    def _filled(self, size: int) -> bytes:
        found = b""
        try:
            found = self._some(size)
            return found if not found or found.endswith(b"\n") else found + self._line()
        except FileError:  # raised again when the lines before it have passed
            whole = found[: found.rfind(b"\n") + 1]
            if not whole:
                raise
            return whole

    def _some(self, size: int) -> bytes:
        """Up to so many bytes; none at the end of the file."""
        return self.stream.read1(size) if self._live else self.stream.read(size)  # type: ignore[attr-defined]

    def _line(self) -> bytes:
        return self.stream.readline(MAX_LINE + 2)

    def _next(self) -> bytes:
        begin = self._at
        if begin == len(self._held):
            return self._line()
        longest = begin + MAX_LINE + 2
        self._at = self._held.find(b"\n", begin, longest) + 1 or min(longest, len(self._held))
        return self._held[begin : self._at]

    def __iter__(self) -> Iterator[bytes]:
        while line := self._next():
            self.lines += 1
            self.passed += len(line)
            if len(line.rstrip(b"\r\n")) > MAX_LINE:
                raise FileError(f"{self._file}: line {self.lines} has more than the {MAX_LINE} bytes of a record")
            if self.kept is not None:
                self.kept += line
                if len(self.kept) > MOST_BLANK:
                    rule = f"ends more than {MOST_BLANK} bytes of blank lines; remove them"
                    raise FileError(f"{self._file}: line {self.lines} {rule}")
            yield line


class Csv:
    """A CSV file whose header has been read. Values are typed by the model's fields, all others by their look (see
    `cells`); the words of a document are separated by white space.

    What is not a number stays a string, and a row of a wrong length becomes a list, which says what is wrong with it:
    judging events is the worker's job.
    """

    def __init__(self, spec: Spec, lines: Counted, file: str, needed: Sequence[Field] | None = None) -> None:
        """The fields that must be there are those of events, or those that are `needed`."""
        self._lines, self._file = lines, file
        header = next(_csv_rows(lines, file), None)
        if header is None:
            raise FileError(f"{file}: is empty; its first line must name the columns")
        self.header: Sequence[str] = header
        for field in spec.event_fields if needed is None else needed:
            _check_column(field, header, file)
        last = {name: i for i, name in enumerate(header)}
        self.columns = [
            (f"{quoted(name)}:", made) if last[name] == i else None
            for i, (name, made) in enumerate(zip(header, converters(spec, header), strict=True))
        ]
        """What stands before each cell, and what makes it JSON; None for a column whose name comes again."""

    def rows(self) -> Iterator[bytes]:
        """The rows from here on, one by one."""
        for row in _csv_rows(self._lines, self._file):
            if len(row) == len(self.header):
                pairs = zip(self.columns, row, strict=True)
                parts = [each[0] + each[1](cell) for each, cell in pairs if each is not None]
                event = f"{{{','.join(parts)}}}".encode()
            elif row:
                event = encode(ragged(row, len(self.header)))
            else:
                continue
            if len(event) > MAX_LINE:
                rule = f"is an event of more than the {MAX_LINE} bytes of a record"
                raise FileError(f"{self._file}: line {self._lines.lines} {rule}")
            yield event


def read_csv(spec: Spec, lines: Counted, file: str, needed: Sequence[Field] | None = None) -> Iterator[bytes]:
    """Rows under a header, as JSON objects (see `Csv`)."""
    yield from Csv(spec, lines, file, needed).rows()


def _check_column(field: Field, header: Sequence[str], file: str) -> None:
    name = field.path[0]
    if len(field.path) > 1:
        raise FileError(f"{file}: {field.label} is inside an object, which CSV does not have; use a .ndjson file")
    if name not in header:
        raise FileError(f"{file}: has no column {name!r}, which the model reads{nearest(name, header)}")
    if header.count(name) > 1:
        raise FileError(f"{file}: column {name!r} of the model appears {header.count(name)} times in the first line")


def nearest(name: str, header: Sequence[str]) -> str:
    """The column that may have been meant, and all that there are, for a message."""
    folded = {column.lower(): column for column in header}
    near = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    guess = f"; did you mean {folded[near[0]]!r}?" if near else ""
    return f"{guess} (its columns, separated by commas: {', '.join(header)})"


def _csv_rows(lines: Counted, file: str) -> Iterator[list[str]]:
    csv.field_size_limit(MAX_LINE)
    row_begin = lines.passed

    def text() -> Iterator[str]:
        for line in lines:
            if lines.passed - row_begin > 2 * MAX_LINE:
                raise FileError(f"{file}: the row that ends in line {lines.lines} has more than {2 * MAX_LINE} bytes")
            yield line.decode("utf-8-sig" if lines.lines == 1 else "utf-8")

    try:
        for row in csv.reader(text(), strict=True):
            yield row
            row_begin = lines.passed
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileError(f"{file}: line {lines.lines} is not CSV in UTF-8: {error}") from error


def read_ndjson(
    spec: Spec,  # noqa: ARG001 (every reader has these)
    lines: Counted,
    file: str,  # noqa: ARG001
    needed: Sequence[Field] | None = None,  # noqa: ARG001
) -> Iterator[bytes]:
    """One JSON value a line, passed on as it is; blank lines are not events."""
    for line in lines:
        if line.strip():
            yield line.rstrip(b"\r\n")


def encode(row: Any) -> bytes:
    """A row as the JSON of an event; numbers of numpy count as numbers."""
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not a value that an event can have")
