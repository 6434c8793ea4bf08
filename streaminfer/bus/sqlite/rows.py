"""Rows of the log as records, many at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from streaminfer.bus.protocol import Headers, Partition, Record
from streaminfer.bus.sqlite import headers

Stored = tuple[int, int, bytes | None, bytes | None, bytes | None]
"""Id, timestamp, key, packed headers and value, as they come from the table."""


def _setter(name: str) -> Callable[[Record, Any], None]:
    setter: Callable[[Record, Any], None] = Record.__dict__[name].__set__
    return setter


_PARTITION, _OFFSET, _TIMESTAMP, _KEY, _VALUE, _HEADERS = map(
    _setter, ("partition", "offset", "timestamp", "key", "value", "headers")
)


def _fill(setter: Callable[[Record, Any], None], records: Sequence[Record], values: Iterable[object]) -> None:
    deque(map(setter, records, values), maxlen=0)


def records(partition: Partition, base: int, rows: Sequence[Stored]) -> tuple[Record, ...]:
    """The records of rows whose ids are `base` + offset.

    The slots are filled column by column: a frozen dataclass's __init__ would cost more than reading the row.
    """
    if not rows:
        return ()
    ids, timestamps, keys, packed, values = zip(*rows, strict=True)
    made = tuple(map(object.__new__, repeat(Record, len(rows))))
    unpacked: Iterable[Headers] = [headers.decode(p) if p else () for p in packed] if any(packed) else repeat(())
    _fill(_PARTITION, made, repeat(partition))
    _fill(_OFFSET, made, [id_ - base for id_ in ids])
    _fill(_TIMESTAMP, made, timestamps)
    _fill(_KEY, made, keys)
    _fill(_VALUE, made, values)
    _fill(_HEADERS, made, unpacked)
    return made


def size(row: Stored) -> int:
    """A row's bytes of key, headers and value."""
    _, _, key, packed, value = row
    return (len(value) if value else 0) + (len(key) if key else 0) + (len(packed) if packed else 0)
