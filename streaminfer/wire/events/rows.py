"""The format `rows`: many events a record, a table of packed float64 with named columns (topics/rows.avsc).

A record says what its columns are, so the schema id in its framing is not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import fastavro
import numpy as np
from numpy.typing import NDArray

from streaminfer.models import times
from streaminfer.models.checks import check_ahead, check_matrix
from streaminfer.models.events import Field, Rejected, look_up, truth
from streaminfer.topics import declarations, formats, read
from streaminfer.wire.avro import HEADER, body, frame, unframed
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.events.json_events import Bad, Decoded, Stamps, instead
from streaminfer.wire.events.json_values import parse_json
from streaminfer.wire.events.runs import Run

MAX_BYTES: Final = declarations()["events"].max_bytes
MAX_EVENTS: Final = MAX_BYTES // 8
"""No record has more events than this: each has eight bytes at least."""
EVENTS_PER_RECORD: Final = 512
SHOWN: Final = 3
"""Different values of one rule that a reason shows."""
_WRITTEN_BYTES: Final = MAX_BYTES // 2
"""The values of the records that are written here."""


class Table(NamedTuple):
    """A record of rows: its columns, and the values (n, columns)."""

    columns: tuple[str, ...]
    values: NDArray[np.float64]


_Order = list[int] | slice
"""Which columns of a record are the fields, in their order."""


class RowsEvents:
    """Rows of the fields of one spec; none of them is a category."""

    def __init__(self, fields: Sequence[Field], schema_id: int) -> None:
        self._fields, self._id = fields, schema_id
        self._in_order = tuple(column_of(field) for field in fields)
        self._columns = tuple(dict.fromkeys(self._in_order))
        self._paths = {column_of(field): field.path for field in fields}
        kinds = {name: {field.kind for field in fields if column_of(field) == name} for name in self._columns}
        self._times = [name for name, found in kinds.items() if found == {"time"}]
        self._truths = [name for name, found in kinds.items() if found == {"binary"}]

    @property
    def events_per_record(self) -> int:
        return max(1, min(EVENTS_PER_RECORD, _WRITTEN_BYTES // (8 * len(self._columns))))

    def decode(self, values: Sequence[bytes | None], stamps: Stamps | None = None) -> Decoded:
        tables: dict[int, Table] = {}
        parts: list[NDArray[np.float64]] = [np.empty((0, len(self._fields)))]
        bad: list[Bad] = []
        orders: dict[tuple[str, ...], _Order] = {}
        for place, value in enumerate(values):
            try:
                table = unpack(value)
                if table.columns not in orders:
                    orders[table.columns] = self._order(table.columns)
            except WireError as error:
                bad.append(Bad(place, instead(self._fields, value, "not rows") or f"not rows: {error}"[:300]))
                continue
            parts.append(table.values[:, orders[table.columns]])
            tables[place] = table
        at = np.repeat(np.array(list(tables), dtype=np.intp), [len(table.values) for table in tables.values()])
        checked = check_matrix(self._fields, np.concatenate(parts))
        if stamps is not None:
            checked = check_ahead(self._fields, checked, stamps[at])
        if checked.rejected:
            bad += _bad_rows(values, tables, at, checked.rejected)
            at = at[checked.places(len(at))]
        return Decoded(checked.events, at, sorted(bad, key=lambda each: each.place))

    @property
    def columns(self) -> Sequence[str]:
        return self._columns if all(len(path) == 1 for path in self._paths.values()) else ()

    def encode(self, *runs: Run) -> list[bytes]:
        fitting, others = [np.empty((0, len(self._columns)))], []
        for run in runs:
            if isinstance(run, np.ndarray):
                fitting.append(run)
                continue
            found = [self._numbers(row) for row in run]
            others += [row for row, numbers in zip(run, found, strict=True) if numbers is None]
            fitting.append(np.array([each for each in found if each is not None]).reshape(-1, len(self._columns)))
        whole = np.concatenate(fitting)
        step = self.events_per_record
        parts = [whole[i : i + step] for i in range(0, len(whole), step)]
        return [*(pack(self._id, Table(self._columns, part)) for part in parts), *others]

    def _order(self, columns: tuple[str, ...]) -> _Order:
        """The places of the fields among the columns of a record; nothing is copied if they are the columns."""
        if columns == self._in_order:
            return slice(None)
        at = {name: i for i, name in enumerate(columns)}
        for field in self._fields:
            if column_of(field) not in at:
                raise BadValue(f"{field.label}: is missing among the columns")
        return [at[column_of(field)] for field in self._fields]

    def _numbers(self, row: bytes) -> list[float] | None:
        """The values of a row if all are numbers, or RFC 3339 for a time, or true or false for 0 or 1. The worker
        judges whether they are in the domain."""
        try:
            event = parse_json(row)
        except (ValueError, RecursionError):
            return None
        if not isinstance(event, Mapping):
            return None
        found = {name: look_up(event, self._paths[name])[0] for name in self._columns}
        try:
            found.update({name: times.parse(text) for name in self._times if isinstance(text := found[name], str)})
        except ValueError:
            return None
        found.update({name: truth(found[name]) for name in self._truths})
        if not set(map(type, found.values())) <= {int, float}:
            return None
        try:
            return [float(value) for value in found.values()]  # type: ignore[arg-type]
        except OverflowError:
            return None


def column_of(field: Field) -> str:
    """The column of a field: its path, with dots for the nested objects of JSON."""
    return ".".join(field.path)


def unpack(value: bytes | None) -> Table:
    """The table of a record; raises WireError on anything else."""
    data, _ = unframed(value, MAX_BYTES)
    found = body(_schema(), data)
    columns, packed = tuple(found["columns"]), found["values"]
    if not columns or len(set(columns)) != len(columns):
        raise BadValue(f"columns: must be one or more, all different (got {len(columns)})")
    if len(packed) % (8 * len(columns)):
        raise BadValue(f"values: must be whole rows of {len(columns)} float64 (got {len(packed)} bytes)")
    return Table(columns, np.frombuffer(packed, "<f8").reshape(-1, len(columns)))


def pack(schema_id: int, table: Table) -> bytes:
    """The record of a table."""
    packed = np.ascontiguousarray(table.values, "<f8").tobytes()
    return frame(schema_id, _schema(), {"columns": list(table.columns), "values": packed})


@cache
def _schema() -> Any:
    return fastavro.parse_schema(json.loads(read(str(formats()["rows"].schema))))


def _bad_rows(
    values: Sequence[bytes | None], tables: Mapping[int, Table], at: NDArray[np.intp], rejected: Sequence[Rejected]
) -> Iterator[Bad]:
    """The records that have rejected rows; `at` has the place of each row's record."""
    by_place: dict[int, list[Rejected]] = {}
    for each in rejected:
        place = int(at[each.row])
        first = int(np.searchsorted(at, place))
        by_place.setdefault(place, []).append(each._replace(row=each.row - first))
    for place, found in by_place.items():
        table, value = tables[place], values[place]
        rest = None if value is None or len(found) == len(table.values) else _only(value, table, found)
        yield Bad(place, _reason(found, len(table.values)), rest, len(found))


def _only(value: bytes, table: Table, rejected: Sequence[Rejected]) -> bytes:
    """A record of the bad rows alone, framed as theirs was: sent again, it brings no good row a second time."""
    schema_id = int.from_bytes(value[1:HEADER], "big")
    return pack(schema_id, Table(table.columns, table.values[[each.row for each in rejected]]))


def _reason(rejected: Sequence[Rejected], n_rows: int) -> str:
    """Which rows of a record are bad and why, the rows of one rule together: `rows 3, 7-9 of 512: k: must be …`."""
    by_rule: dict[tuple[str, str], list[Rejected]] = {}
    for each in rejected:
        by_rule.setdefault((each.field, each.rule), []).append(each)
    told = []
    for found in by_rule.values():
        got = list(dict.fromkeys(each.got for each in found if each.got))
        values = ", ".join(got[:SHOWN]) + (", ..." if len(got) > SHOWN else "")
        ranges = ", ".join(_ranges([each.row for each in found]))
        told.append(f"rows {ranges} of {n_rows}: {found[0]._replace(got=values).reason}")
    return "; ".join(told)


def _ranges(rows: Sequence[int]) -> Iterator[str]:
    first = last = rows[0]
    for row in [*rows[1:], -1]:
        if row != last + 1:
            yield str(first) if first == last else f"{first}-{last}"
            first = row
        last = row
