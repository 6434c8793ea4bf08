"""Data records to events: what every format gives, and the format `json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.checks import check, check_ahead
from streaminfer.models.events import Events, Field
from streaminfer.wire.events import json_values
from streaminfer.wire.events.json_values import TOGETHER, parse_json
from streaminfer.wire.events.runs import Run

NOT_JSON: Final = "not JSON"


class Bad(NamedTuple):
    """A record that is not an event, or has some that are not: its place among the records, and why.

    If other events of the record are good, `rest` is a record of the bad ones alone, and they are `n_events`.
    """

    place: int
    reason: str
    rest: bytes | None = None
    n_events: int = 1


class Decoded(NamedTuple):
    """The good events, the place of each one's record (n,), and the bad records."""

    events: Events
    places: NDArray[np.intp]
    bad: list[Bad]


Stamps = NDArray[np.float64]
"""The timestamps of records, in seconds since 1970."""


class EventFormat(Protocol):
    """One data format for the fields of one spec."""

    @property
    def events_per_record(self) -> int:
        """How many events `encode` puts into a record at most."""

    @property
    def columns(self) -> Sequence[str]:
        """The names at the top of an event whose numbers alone make a record, in the order of a matrix of rows; none
        if rows must come as texts."""

    def decode(self, values: Sequence[bytes | None], stamps: Stamps | None = None) -> Decoded:
        """The events of records, in their order. Times in them must not be far ahead of the records' `stamps`."""

    def encode(self, *runs: Run) -> list[bytes]:
        """Records of rows, those of all runs together. A row that the format cannot hold goes as its JSON text:
        judging events is the worker's job, and a dead letter shows what it was."""


class JsonEvents:
    """One JSON object a record."""

    events_per_record = 1
    columns: Sequence[str] = ()

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields

    def decode(self, values: Sequence[bytes | None], stamps: Stamps | None = None) -> Decoded:
        return decode_json(self._fields, values, stamps)

    def encode(self, *runs: Run) -> list[bytes]:
        return [row for run in runs for row in run]


def decode_json(fields: Sequence[Field], values: Sequence[bytes | None], stamps: Stamps | None = None) -> Decoded:
    """One JSON object a record. NaN and Infinity are not JSON; a repeated name counts with its last value."""
    quick = json_values.quickly(values)
    if quick is not None:
        decoded = _checked(fields, quick, range(len(values)), [], stamps)
        if not decoded.bad:
            return decoded  # else each text is parsed by itself, which gives the usual reasons
    rows: list[object] = []
    places: list[int] = []
    bad: list[Bad] = []
    for begin in range(0, len(values), TOGETHER):
        part = values[begin : begin + TOGETHER]
        found = json_values.together(part)
        if found is not None:
            rows += found
            places += range(begin, begin + len(part))
            continue
        for i, value in enumerate(part, begin):
            try:
                rows.append(parse_json(value))
                places.append(i)
            except (ValueError, RecursionError) as error:
                bad.append(Bad(i, f"{NOT_JSON}: {error}"[:300]))
    return _checked(fields, rows, places, bad, stamps)


def instead(fields: Sequence[Field], value: bytes | None, what: str) -> str | None:
    """What is wrong with an event that was sent as JSON, as are rows that another format cannot hold. None if it is not
    JSON, or if it would be right as JSON."""
    if value is None or value[:1] not in {b"{", b"["}:
        return None
    found = decode_json(fields, [value]).bad
    return f"{what}, but JSON: {found[0].reason}" if found and not found[0].reason.startswith(NOT_JSON) else None


def _checked(
    fields: Sequence[Field], rows: Sequence[object], places: Sequence[int], bad: list[Bad], stamps: Stamps | None
) -> Decoded:
    """The events of parsed rows, each with the place of its record, beside the records that are bad already."""
    at = np.array(places, dtype=np.intp)
    checked = check(fields, rows)
    if stamps is not None:
        checked = check_ahead(fields, checked, stamps[at])
    rejected = [Bad(places[r.row], r.reason) for r in checked.rejected]
    good = at[checked.places(len(at))] if rejected else at
    return Decoded(checked.events, good, sorted([*bad, *rejected]))
