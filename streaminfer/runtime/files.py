"""Text files of events: each row becomes the JSON text of an event, which a data format then puts into records."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, BinaryIO, Final

from streaminfer.models.events import Field
from streaminfer.spec import Spec
from streaminfer.spec.avro_schema import NUMBERS, branches, reduced
from streaminfer.topics import declarations

MAX_LINE: Final = declarations()["events"].max_bytes


class FileError(ValueError):
    """A file that cannot be read as events; names the file, the line, the rule and the remedy."""


class BadFile(ValueError):
    """What is wrong with a file, for a FileError that says which and where."""


class Counted:
    """Lines of a binary file, none longer than MAX_LINE, counting lines and bytes as they are read."""

    def __init__(self, stream: BinaryIO, file: str) -> None:
        self.stream, self._file = stream, file
        self.lines = self.bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        while line := self.stream.readline(MAX_LINE + 2):
            self.lines += 1
            self.bytes += len(line)
            if len(line.rstrip(b"\r\n")) > MAX_LINE:
                raise FileError(f"{self._file}: line {self.lines} has more than the {MAX_LINE} bytes of a record")
            yield line


Converter = Callable[[str], Any]


def read_csv(spec: Spec, lines: Counted, file: str, needed: Sequence[Field] | None = None) -> Iterator[bytes]:
    """Rows under a header, as JSON objects; values are typed by the model's fields, all others stay strings, and the
    words of a document are what stands between white space. The fields that must be there are those of events, or
    those that are `needed`.

    What is no number stays a string, and a row of a wrong length becomes a list: judging events is the worker's job.
    """
    rows = _csv_rows(lines, file)
    header = next(rows, None)
    if header is None:
        raise FileError(f"{file}: is empty; its first line must name the columns")
    fields: dict[str, list[Field]] = {}
    for field in spec.event_fields if needed is None else needed:
        name = field.path[0]
        fields.setdefault(name, []).append(field)
        if len(field.path) > 1:
            raise FileError(f"{file}: {field.label} is inside an object, which CSV does not have; use a .ndjson file")
        if name not in header:
            raise FileError(f"{file}: has no column {name!r}, which the model reads{nearest(name, header)}")
        if header.count(name) > 1:
            raise FileError(f"{file}: column {name!r} of the model stands {header.count(name)} times in the first line")
    others = _schema_numbers(spec)
    keys_are_numbers = spec.data.format == "rows"
    converters = [_converter(fields.get(name, []), others.get(name), keys_are_numbers) for name in header]
    for row in rows:
        if len(row) == len(header):
            event = encode({n: f(v) for n, f, v in zip(header, converters, row, strict=True)})
        elif row:
            event = encode(row)
        else:
            continue
        if len(event) > MAX_LINE:
            raise FileError(f"{file}: line {lines.lines} is an event of more than the {MAX_LINE} bytes of a record")
        yield event


def nearest(name: str, header: Sequence[str]) -> str:
    """The column that may have been meant, and all that there are, for a message."""
    folded = {column.lower(): column for column in header}
    near = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    guess = f"; did you mean {folded[near[0]]!r}?" if near else ""
    return f"{guess} (its columns, separated by commas: {', '.join(header)})"


def _csv_rows(lines: Counted, file: str) -> Iterator[list[str]]:
    csv.field_size_limit(MAX_LINE)
    row_begin = 0

    def text() -> Iterator[str]:
        for line in lines:
            if lines.bytes - row_begin > 2 * MAX_LINE:
                raise FileError(f"{file}: the row to line {lines.lines} has more than {2 * MAX_LINE} bytes")
            yield line.decode("utf-8-sig" if lines.lines == 1 else "utf-8")

    try:
        for row in csv.reader(text(), strict=True):
            yield row
            row_begin = lines.bytes
    except (csv.Error, UnicodeDecodeError) as error:
        raise FileError(f"{file}: line {lines.lines} is no CSV in UTF-8: {error}") from error


def _converter(fields: Sequence[Field], others: Converter | None, keys_are_numbers: bool) -> Converter:
    """Of a column that some fields read: a key may be a number of the model too, and then it is a whole number."""
    kinds = {field.kind for field in fields}
    if "tokens" in kinds:
        return str.split
    if kinds <= {"key"}:
        return _number if kinds and keys_are_numbers else others or str
    return str if "category" in kinds else _number


def _schema_numbers(spec: Spec) -> dict[str, Converter]:
    """The columns that an Avro schema says are numbers, whether the model reads them or not; empty may mean null."""
    if spec.data.format != "avro":
        return {}
    schema: Any = reduced(spec.event_schema)
    types = {each["name"]: {str(branch) for branch in branches(each["type"])} for each in schema["fields"]}
    return {
        name: (lambda text: None if text == "" else _number(text)) if "null" in found else _number
        for name, found in types.items()
        if found - {"null"} and found - {"null"} <= NUMBERS
    }


def _number(text: str) -> Any:
    """The number a text is, an integer where it looks like one; else the text itself."""
    try:
        return int(text) if len(text) < 20 and text.lstrip("+-").isdecimal() else _finite(text)
    except ValueError:
        return text


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) and "_" not in text else text


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
    raise TypeError(f"{type(value).__name__} is no value of an event")
