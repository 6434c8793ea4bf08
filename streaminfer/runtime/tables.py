"""Parquet and Avro files of events, and the table of all kinds of files: one reader for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import fastavro

from streaminfer.runtime.files import MAX_LINE, Counted, FileError, encode, nearest, read_csv, read_ndjson
from streaminfer.spec import Spec
from streaminfer.spec.avro_schema import SchemaError, reduced

PORTION: Final = 1000
"""Rows of a Parquet file that are read at once."""


def read_parquet(spec: Spec, lines: Counted, file: str) -> Iterator[bytes]:
    """Rows of a Parquet file; needs pyarrow, the extra `parquet`."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise FileError(f"{file}: Parquet needs pyarrow: pip install 'streaminfer[parquet]'") from error
    total = lines.stream.seek(0, 2)
    try:
        opened = parquet.ParquetFile(lines.stream)
        _check_columns(spec, opened.schema_arrow.names, file)
        for portion in opened.iter_batches(PORTION):
            for row in portion.to_pylist():
                lines.lines += 1
                yield _event(row, lines, file)
            lines.bytes = total * lines.lines // max(1, opened.metadata.num_rows)
    except (ArrowException, OSError) as error:
        raise FileError(f"{file}: is no Parquet file that can be read: {str(error)[:200]}") from error
    lines.bytes = total


def read_avro(spec: Spec, lines: Counted, file: str) -> Iterator[bytes]:
    """Records of an Avro object container file, whose schema is checked before anything is read by it."""
    try:
        opened = fastavro.reader(lines.stream)
        schema: Any = reduced(json.dumps(opened.writer_schema))
    except SchemaError as error:
        raise FileError(f"{file}: has a schema that is not read: {error}") from error
    except Exception as error:  # fastavro raises whatever its reading stumbles on
        raise FileError(f"{file}: is no Avro file that can be read: {type(error).__name__}: {error}"[:300]) from error
    _check_columns(spec, [field["name"] for field in schema["fields"]], file)
    while True:
        try:
            row = next(opened, None)
        except Exception as error:
            where = f"after record {lines.lines}"
            raise FileError(f"{file}: cannot be read {where}: {type(error).__name__}: {error}"[:300]) from error
        lines.bytes = lines.stream.tell()
        if row is None:
            return
        lines.lines += 1
        yield _event(row, lines, file)


def _check_columns(spec: Spec, columns: Sequence[str], file: str) -> None:
    for field in spec.event_fields:
        if field.path[0] not in columns:
            raise FileError(
                f"{file}: has no column {field.path[0]!r}, which the model reads{nearest(field.path[0], columns)}"
            )


def _event(row: Any, lines: Counted, file: str) -> bytes:
    event = encode(_plain(row))
    if len(event) > MAX_LINE:
        raise FileError(f"{file}: row {lines.lines} is an event of more than the {MAX_LINE} bytes of a record")
    return event


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


Reader = Callable[[Spec, Counted, str], Iterator[bytes]]
KINDS: Final[dict[str, Reader]] = {
    ".csv": read_csv,
    ".ndjson": read_ndjson,
    ".jsonl": read_ndjson,
    ".parquet": read_parquet,
    ".avro": read_avro,
}
STREAMED: Final = {"csv": read_csv, "ndjson": read_ndjson}
"""What standard input may be."""


def reader_of(path: Path) -> Reader:
    """The reader for a file, by its ending."""
    try:
        return KINDS[path.suffix.lower()]
    except KeyError:
        raise FileError(f"{path}: the name must end in one of {', '.join(KINDS)} (got {path.suffix!r})") from None
