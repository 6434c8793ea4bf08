"""Data records to events: one decoder for each data format, in an explicit table.

Formats to come (`avro`, `rows`) are one function and one row of FORMATS each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.events import Field, check
from streaminfer.topics import declarations

MAX_BYTES: Final = declarations()["events"].max_bytes


class Bad(NamedTuple):
    """A record that is no event: its place among the records, and why."""

    place: int
    reason: str


class Decoded(NamedTuple):
    """The events of the good records as a matrix (n, fields), and the bad records."""

    events: NDArray[np.float64]
    bad: list[Bad]


Decoder = Callable[[Sequence[Field], Sequence[bytes | None]], Decoded]


def decode_json(fields: Sequence[Field], values: Sequence[bytes | None]) -> Decoded:
    """One JSON object a record. NaN and Infinity are not JSON; a repeated name counts with its last value."""
    rows: list[object] = []
    places: list[int] = []
    bad: list[Bad] = []
    for i, value in enumerate(values):
        try:
            rows.append(_parse(value))
            places.append(i)
        except (ValueError, RecursionError) as error:
            bad.append(Bad(i, f"not JSON: {error}"[:300]))
    events, rejected = check(fields, rows)
    bad += [Bad(places[r.row], r.reason) for r in rejected]
    return Decoded(events, sorted(bad))


def _parse(value: bytes | None) -> object:
    if value is None:
        raise ValueError("a tombstone holds no event")
    if len(value) > MAX_BYTES:
        raise ValueError(f"{len(value)} bytes are more than the {MAX_BYTES} an event may have")
    return _JSON.decode(str(value, "utf-8"))


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


_JSON: Final = json.JSONDecoder(parse_constant=_no_constant)

FORMATS: Final[dict[str, Decoder]] = {"json": decode_json}
