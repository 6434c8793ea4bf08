"""Rows of the log as records, many at a time."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, Final
from zlib import crc32

from streaminfer.bus.protocol import Headers, Partition, Record, Unreadable
from streaminfer.bus.sqlite import headers

Stored = tuple[int, int, bytes | None, bytes | None, bytes | None, int | None]
"""Id, timestamp, key, packed headers, value and checksum, as they come from the table; old records have no checksum."""
_BITS: Final = 0xFFFFFFFF
FAULTS: Final = (TypeError, ValueError, struct.error)
"""Raised for a column with something of another type, or headers that end too early or are not UTF-8."""


def checksums(
    timestamps: Sequence[int],
    keys: Sequence[bytes | None],
    packed: Sequence[bytes | None],
    values: Sequence[bytes | None],
) -> list[int]:
    """CRC-32 of value, key and packed headers of each record, if it has them, with the timestamp as the start.

    By columns, as most are full or empty: a call for each record would take several times as long.
    """
    found = [(stamp ^ stamp >> 32) & _BITS for stamp in timestamps]
    for mark, column in enumerate((values, keys, packed)):
        empty = column.count(None)
        if empty == 0:
            found = list(map(crc32, column, [each ^ mark for each in found] if mark else found))  # type: ignore[arg-type]
        elif empty < len(column):
            pairs = zip(column, found, strict=True)
            found = [each if part is None else crc32(part, each ^ mark) for part, each in pairs]
    return found


def _setter(name: str) -> Callable[[Record, Any], None]:
    setter: Callable[[Record, Any], None] = Record.__dict__[name].__set__
    return setter


_PARTITION, _OFFSET, _TIMESTAMP, _KEY, _VALUE, _HEADERS = map(
    _setter, ("partition", "offset", "timestamp", "key", "value", "headers")
)


def _fill(setter: Callable[[Record, Any], None], records: Sequence[Record], values: Iterable[object]) -> None:
    deque(map(setter, records, values), maxlen=0)


def records(partition: Partition, base: int, rows: Sequence[Stored]) -> tuple[Record, ...]:
    """The records of rows whose ids are `base` + offset; what is not as it was written is Unreadable.

    The slots are filled column by column: a frozen dataclass's __init__ would cost more than reading the row.
    """
    if not rows:
        return ()
    ids, timestamps, keys, packed, values, written = zip(*rows, strict=True)
    try:
        if not _alike(checksums(timestamps, keys, packed, values), written):
            return tuple(_one(partition, base, row) for row in rows)
        unpacked: Iterable[Headers] = [headers.decode(p) if p else () for p in packed] if any(packed) else repeat(())
    except FAULTS:
        return tuple(_one(partition, base, row) for row in rows)
    made = tuple(map(object.__new__, repeat(Record, len(rows))))
    _fill(_PARTITION, made, repeat(partition))
    _fill(_OFFSET, made, [id_ - base for id_ in ids])
    _fill(_TIMESTAMP, made, timestamps)
    _fill(_KEY, made, keys)
    _fill(_VALUE, made, values)
    _fill(_HEADERS, made, unpacked)
    return made


def _alike(found: Sequence[int], written: Sequence[int | None]) -> bool:
    """Whether checksums are those that were written, as far as there are any."""
    return tuple(found) == written or all(old in {None, new} for new, old in zip(found, written, strict=True))


def _one(partition: Partition, base: int, row: Stored) -> Record:
    """A row next to a faulty one, or that itself."""
    id_, timestamp, key, packed, value, written = row
    try:
        (found,) = checksums((timestamp,), (key,), (packed,), (value,))
        if written is None or found == written:
            return Record(partition, id_ - base, timestamp, key, value, headers.decode(packed) if packed else ())
        fault = f"its checksum is {found:08x}, and was {written:08x} when it was written"
    except FAULTS as error:
        fault = str(error)
    kept = [each if isinstance(each, bytes) else None for each in (key, value)]
    stamp = timestamp if isinstance(timestamp, int) else 0
    return Unreadable(partition, id_ - base, stamp, kept[0], kept[1], (), f"the file of the bus is damaged: {fault}")


def size(row: Stored) -> int:
    """A row's bytes of key, headers and value."""
    _, _, key, packed, value, _ = row
    return (len(value) if value else 0) + (len(key) if key else 0) + (len(packed) if packed else 0)
