"""Data records to events: what every format gives, and the format `json`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.bags import Bags
from streaminfer.models.events import Field, anew, bags_of, check, check_ahead
from streaminfer.topics import declarations

MAX_BYTES: Final = declarations()["events"].max_bytes
TOGETHER: Final = 64
"""Records that are parsed by one call: one bad event costs the others of its part a second parsing."""


class Bad(NamedTuple):
    """A record that is no event, or has some that are none: its place among the records, and why.

    Where other events of the record are good, `rest` is a record of the bad ones alone, and they are `n_events`.
    """

    place: int
    reason: str
    rest: bytes | None = None
    n_events: int = 1


class Decoded(NamedTuple):
    """The good events as a matrix (n, fields), the place of each one's record (n,), and the bad records.

    Where there is a field for the key, its column says which of `labels` an event has; where there is one for
    documents, which of those in `bags`.
    """

    events: NDArray[np.float64]
    places: NDArray[np.intp]
    bad: list[Bad]
    labels: list[bytes]
    bags: Bags | None = None


Stamps = NDArray[np.float64]
"""The timestamps of records, in seconds since 1970."""


class EventFormat(Protocol):
    """One data format for the fields of one spec."""

    @property
    def events_per_record(self) -> int:
        """How many events `encode` puts into a record at most."""

    def decode(self, values: Sequence[bytes | None], stamps: Stamps | None = None) -> Decoded:
        """The events of records, in their order. Times in them must not be far ahead of the records' `stamps`."""

    def encode(self, rows: Sequence[bytes]) -> list[bytes]:
        """Records of rows, each the JSON text of an event. A row that the format cannot hold goes as that text:
        judging events is the worker's job, and a dead letter shows what it was."""


class JsonEvents:
    """One JSON object a record."""

    events_per_record = 1

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields

    def decode(self, values: Sequence[bytes | None], stamps: Stamps | None = None) -> Decoded:
        return decode_json(self._fields, values, stamps)

    def encode(self, rows: Sequence[bytes]) -> list[bytes]:
        return list(rows)


def decode_json(fields: Sequence[Field], values: Sequence[bytes | None], stamps: Stamps | None = None) -> Decoded:
    """One JSON object a record. NaN and Infinity are not JSON; a repeated name counts with its last value."""
    rows: list[object] = []
    places: list[int] = []
    bad: list[Bad] = []
    for begin in range(0, len(values), TOGETHER):
        part = values[begin : begin + TOGETHER]
        found = _parse_together(part)
        if found is not None:
            rows += found
            places += range(begin, begin + len(part))
            continue
        for i, value in enumerate(part, begin):
            try:
                rows.append(parse_json(value))
                places.append(i)
            except (ValueError, RecursionError) as error:
                bad.append(Bad(i, f"not JSON: {error}"[:300]))
    fields, labels = anew(fields)
    at = np.array(places, dtype=np.intp)
    checked = check(fields, rows)
    if stamps is not None:
        checked = check_ahead(fields, checked, stamps[at])
    bad += [Bad(places[r.row], r.reason) for r in checked.rejected]
    good = np.delete(at, [r.row for r in checked.rejected])
    return Decoded(checked.events, good, sorted(bad), labels, bags_of(fields))


def _parse_together(values: Sequence[bytes | None]) -> list[object] | None:
    """The values of several JSON texts by one call, or None where any is not right; then each is parsed by itself.

    Between them stands a number that nobody can know beforehand. Found again between any two values, and nowhere
    else, it proves that no text began or ended inside of another.
    """
    texts = [value for value in values if value is not None and len(value) <= MAX_BYTES]
    if len(texts) < len(values):
        return None
    mark = secrets.randbits(60)
    try:
        found = _JSON.decode(str(b"[" + (b",%d," % mark).join(texts) + b"]", "utf-8"))
    except (ValueError, RecursionError):
        return None
    whole = len(found) == 2 * len(texts) - 1 and found[1::2] == [mark] * (len(texts) - 1)
    return found[::2] if whole else None


def parse_json(value: bytes | None) -> object:
    """The value of a JSON text; raises ValueError or RecursionError where it is none."""
    if value is None:
        raise ValueError("a tombstone holds no event")
    if len(value) > MAX_BYTES:
        raise ValueError(f"{len(value)} bytes are more than the {MAX_BYTES} an event may have")
    return _JSON.decode(str(value, "utf-8"))


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


_JSON: Final = json.JSONDecoder(parse_constant=_no_constant)
