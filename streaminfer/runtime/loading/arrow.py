"""Columns of Arrow as types that Python has without loss or failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streaminfer.models.events import LARGEST_COUNT, Field

Matrix = NDArray[np.float64]

_ESCAPED: Final = 6
"""Bytes that one of a text may have in JSON."""
_NUMBER: Final = 40
"""Bytes that a value of fixed width may have in JSON."""
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


def matrix(
    table: pa.Table, columns: Sequence[str], truths: frozenset[str], moments: Mapping[str, int]
) -> Matrix | None:
    """The columns as numbers, if every value is a finite one.

    Booleans are numbers in the columns `truths`. In those of `moments` whole numbers count parts of a second.
    """
    if any(table.column_names.count(name) != 1 for name in columns):
        return None
    found = []
    for name in columns:
        column = table.column(name)
        if column.null_count or not _is_number(column.type, name in truths):
            return None
        values = column.to_numpy()
        unit = moments.get(name, 1) if pa.types.is_integer(column.type) else 1
        if unit > 1 and (np.abs(values) > LARGEST_COUNT).any():
            return None
        found.append(values.astype(np.float64) / unit)
    made = np.stack(found, axis=1)
    return made if np.isfinite(made).all() else None


def longest(table: pa.Table) -> int | None:
    """More bytes than the longest row has as JSON; None if that is not easily known."""
    size = 0
    for column in table.columns:
        if _is_text(column.type):
            size += _ESCAPED * (pc.max(pc.binary_length(column)).as_py() or 0)
        elif pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type):
            return None
        size += _NUMBER
    return size + _ESCAPED * sum(len(name.encode()) for name in table.column_names)


def _is_number(kind: pa.DataType, truth: bool) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or (truth and pa.types.is_boolean(kind))


def _is_text(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )
