"""Parquet and Avro files of events, and the table of all kinds of files: one reader for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Protocol

from streaminfer.models.events import Field
from streaminfer.runtime.loading.files import (
    MAX_LINE,
    BadFile,
    Counted,
    FileError,
    encode,
    nearest,
    read_csv,
    read_ndjson,
)
from streaminfer.runtime.loading.gzipped import ENDING
from streaminfer.spec import Spec
from streaminfer.spec.avro_schema import SchemaError, is_local, leaves, unit_of

PORTION: Final = 1000
"""Rows of a Parquet file that become texts at once."""
_MOST_BYTES: Final = 64 << 20
"""Bytes that rows read at once should have, by what the file says of its row groups."""


class Parquet:
    """A Parquet file whose schema has been checked; needs pyarrow, the extra `parquet`."""

    def __init__(self, spec: Spec, lines: Counted, file: str, needed: Sequence[Field] | None = None) -> None:
        try:
            from pyarrow import parquet

            from streaminfer.runtime.loading import arrow
        except ImportError as error:
            raise FileError(
                f"{file}: Parquet needs pyarrow: pip install pyarrow, or '.[parquet]' in a clone of streaminfer"
            ) from error
        self._lines, self._file = lines, file
        self.size = lines.stream.seek(0, 2)
        fields = spec.event_fields if needed is None else needed
        self.time = _time(fields)
        with self._told():
            self._opened = parquet.ParquetFile(lines.stream)
            _check_columns(fields, self._opened.schema_arrow.names, file)
            self._schema, self.unit = arrow.plain(self._opened.schema_arrow, self.time)
            lines.zoneless = arrow.lacks_zone(self._opened.schema_arrow, self.time)

    def portions(self, rows: int, begin: int = 0) -> Iterator[Any]:
        """Tables of at most so many rows, fewer if they are large, from the row `begin` on."""
        described = [self._opened.metadata.row_group(i) for i in range(self._opened.num_row_groups)]
        groups = [each.num_rows for each in described]
        widest = max((each.total_byte_size // max(1, each.num_rows) for each in described), default=0)
        rows = max(1, min(rows, _MOST_BYTES // max(1, widest)))
        first = 0
        while first < len(groups) and begin >= groups[first]:
            begin -= groups[first]
            first += 1
        self._lines.lines = sum(groups[:first])
        found = self._opened.iter_batches(rows, row_groups=range(first, len(groups)))
        while (table := self._next(found)) is not None:
            before = min(begin, len(table))
            begin -= before
            self._lines.lines += before
            yield table.slice(before)
            self._lines.passed = self.size * self._lines.lines // max(1, sum(groups))
        self._lines.passed = self.size

    def events(self, table: Any) -> Iterator[bytes]:
        """The rows of a table as JSON texts."""
        with self._told():
            for row in table.to_pylist():
                self._lines.lines += 1
                yield _event(row, self._lines, self._file, self.time, self.unit)

    def _next(self, found: Iterator[Any]) -> Any:
        from pyarrow import Table

        with self._told():
            portion = next(found, None)
            return None if portion is None else Table.from_batches([portion]).cast(self._schema, safe=False)

    @contextmanager
    def _told(self) -> Iterator[None]:
        from pyarrow import ArrowException

        try:
            yield
        except FileError:
            raise
        except (ArrowException, OSError, ValueError, OverflowError, RecursionError) as error:
            why = str(error)[:200]
            raise FileError(f"{self._file}: is not a Parquet file that can be read: {why}") from error


def read_parquet(spec: Spec, lines: Counted, file: str, needed: Sequence[Field] | None = None) -> Iterator[bytes]:
    """Rows of a Parquet file."""
    opened = Parquet(spec, lines, file, needed)
    for table in opened.portions(PORTION):
        yield from opened.events(table)


def read_avro(spec: Spec, lines: Counted, file: str, needed: Sequence[Field] | None = None) -> Iterator[bytes]:
    """Records of an Avro object container file, whose schema is checked before anything is read by it."""
    from streaminfer.runtime.loading.containers import Container  # here, as only this format needs to load its codecs

    fields = spec.event_fields if needed is None else needed
    field, unit = _time(fields), 1
    try:
        opened = Container(lines.stream)
        schema: Any = opened.schema
        _check_columns(fields, [each["name"] for each in schema["fields"]], file)
        if field is not None:
            unit = unit_of(schema, field)
            lines.zoneless = any(is_local(found) for found in leaves(schema, field))
        records = opened.records(opened.document if field is None else _undated(opened.document, field.path))
    except FileError:
        raise
    except SchemaError as error:
        raise FileError(f"{file}: has a schema that cannot be used: {error}") from error
    except Exception as error:  # fastavro raises whatever its reading stumbles on
        raise FileError(f"{file}: is not an Avro file that can be read: {_why(error)}") from error
    while True:
        try:
            row = next(records, None)
        except Exception as error:
            raise FileError(f"{file}: cannot be read after record {lines.lines}: {_why(error)}") from error
        lines.passed = lines.stream.tell()
        if row is None:
            return
        lines.lines += 1
        yield _event(row, lines, file, field, unit)


def _why(error: Exception) -> str:
    return (str(error) if isinstance(error, BadFile) else f"{type(error).__name__}: {error}")[:300]


def _undated(schema: Any, path: Sequence[str]) -> Any:
    """A schema with the number at the end of a path as it is. A library fails at a time beyond the year 9999, and one
    bad event should not end a file. A type that is only named there stays what it is."""
    if isinstance(schema, list):
        return [_undated(branch, path) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if path and "fields" in schema:
        fields = [
            {**each, "type": _undated(each["type"], path[1:])} if each["name"] == path[0] else each
            for each in schema["fields"]
        ]
        return {**schema, "fields": fields}
    if isinstance(schema["type"], dict | list):
        return {**schema, "type": _undated(schema["type"], path)}
    return schema if path else {name: value for name, value in schema.items() if name != "logicalType"}


def _time(fields: Sequence[Field]) -> Field | None:
    return next((each for each in fields if each.kind == "time"), None)


def _check_columns(fields: Sequence[Field], columns: Sequence[str], file: str) -> None:
    for field in fields:
        if field.path[0] not in columns:
            raise FileError(
                f"{file}: has no column {field.path[0]!r}, which the model reads{nearest(field.path[0], columns)}"
            )


def _event(row: Any, lines: Counted, file: str, time: Field | None, unit: int) -> bytes:
    if time is not None:
        _date(row, time.path, unit)
    event = encode(_plain(row))
    if len(event) > MAX_LINE:
        raise FileError(f"{file}: row {lines.lines} is an event of more than the {MAX_LINE} bytes of a record")
    return event


def _date(row: Any, path: Sequence[str], unit: int) -> None:
    """Gives a row its time in a form that events have: seconds of a count of parts, and a zone to times without one,
    which are of UTC then."""
    here = row
    for name in path[:-1]:
        here = here.get(name) if isinstance(here, dict) else None
    value = here.get(path[-1]) if isinstance(here, dict) else None
    if unit > 1 and type(value) is int:
        here[path[-1]] = value / unit
    elif isinstance(value, datetime) and value.tzinfo is None:
        here[path[-1]] = value.replace(tzinfo=UTC)


def _plain(value: Any) -> Any:
    """A value of a file as one that JSON has: times as ISO texts, decimals as numbers, bytes as texts."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


class Reader(Protocol):
    """Rows of a file as JSON texts of events; a file without the fields of events, or those `needed`, is refused."""

    def __call__(
        self, spec: Spec, lines: Counted, file: str, needed: Sequence[Field] | None = None, /
    ) -> Iterator[bytes]: ...


KINDS: Final[dict[str, Reader]] = {
    ".csv": read_csv,
    ".ndjson": read_ndjson,
    ".jsonl": read_ndjson,
    f".csv{ENDING}": read_csv,
    f".ndjson{ENDING}": read_ndjson,
    f".jsonl{ENDING}": read_ndjson,
    ".parquet": read_parquet,
    ".avro": read_avro,
}
STREAMED: Final[dict[str, Reader]] = {"csv": read_csv, "ndjson": read_ndjson}
"""What standard input may be."""


def reader_of(path: Path) -> Reader:
    """The reader for a file, by its ending."""
    *before, ending = ["", *path.suffixes]
    if ending.lower() == ENDING:
        ending = before[-1] + ending
    try:
        return KINDS[ending.lower()]
    except KeyError:
        raise FileError(f"{path}: the name must end in one of {', '.join(KINDS)} (got {ending!r})") from None
