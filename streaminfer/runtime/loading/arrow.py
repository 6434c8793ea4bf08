"""Columns of Arrow as types that Python has without loss or failure."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from streaminfer.models.events import Field

_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain(schema: pa.Schema, time: Field | None) -> tuple[pa.Schema, int]:
    """The schema to read by, and how many of the numbers at `time` make a second.

    The time of events becomes a number, which no year is too far for; other times are in microseconds, as Python has
    no smaller ones.
    """
    made = pa.schema([_plain(each, () if time is None else time.path) for each in schema])
    found = None if time is None else _at(schema, time.path)
    return made, _UNITS[found.unit] if found is not None and pa.types.is_timestamp(found) else 1


def lacks_zone(schema: pa.Schema, time: Field | None) -> bool:
    """Whether the time of events is a timestamp that does not say its zone."""
    found = None if time is None else _at(schema, time.path)
    return found is not None and pa.types.is_timestamp(found) and found.tz is None


def _plain(field: pa.Field, path: tuple[str, ...]) -> pa.Field:
    rest = path[1:] if path and path[0] == field.name else None
    kind = field.type
    if pa.types.is_timestamp(kind):
        if rest == ():
            return field.with_type(pa.int64())
        return field.with_type(pa.timestamp("us", kind.tz)) if kind.unit == "ns" else field
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_plain(inner, rest or ()) for inner in kind]))
    return field


def _at(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType | None:
    """The type at the end of a path; None if nothing is there."""
    here = pa.struct(list(schema))
    for name in path:
        index = here.get_field_index(name) if pa.types.is_struct(here) else -1
        if index < 0:
            return None
        here = here.field(index).type
    return here
