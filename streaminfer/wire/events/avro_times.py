"""Times of events into Avro: what a row says in RFC 3339 or in seconds, as the type that the schema has for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, Final

from streaminfer.models import times
from streaminfer.models.events import Field
from streaminfer.spec.avro_schema import Schema, leaves, per_second

_DAY: Final = 86_400
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()


class TimeWriter:
    """Puts the time of an event into the type that a schema has at a field."""

    def __init__(self, schema: Schema, field: Field) -> None:
        """`schema` is one that `reduced` has dated, and has the field."""
        self._path = field.path
        self._types: Sequence[Any] = list(leaves(schema, field))

    def put(self, event: dict[str, Any]) -> None:
        """Changes the event if its time has another type; what is not a time stays, for others to judge."""
        put_at(event, self._path, self._as_written)

    def _as_written(self, value: Any) -> Any:
        if "string" in self._types and isinstance(value, str):
            return value
        try:
            seconds = times.parse(value) if isinstance(value, str) else value
        except ValueError:
            return value
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not _is_time(seconds):
            return value
        if "double" in self._types:
            return float(seconds)
        for found in self._types:
            if found != "string":
                return _whole(seconds, per_second(found))
        return text(seconds)


def put_at(event: dict[str, Any], path: Sequence[str], made: Callable[[Any], Any]) -> None:
    """Converts the value at the end of a path, if there is one, in its place."""
    here: Any = event
    for name in path[:-1]:
        here = here.get(name) if isinstance(here, dict) else None
    if isinstance(here, dict) and path[-1] in here:
        here[path[-1]] = made(here[path[-1]])


def _is_time(seconds: float) -> bool:
    return math.isfinite(seconds) and times.EARLIEST <= seconds <= times.LATEST


def _whole(seconds: float, units: int) -> int | float:
    """Seconds in units, N to a second. Whole seconds take no fraction: such a time stays as it is, which no schema of
    whole numbers holds."""
    if units > 1:
        return round(seconds * units)
    return int(seconds) if seconds == int(seconds) else seconds


def text(seconds: float) -> str:
    """A time as RFC 3339, to the nanosecond: what float64 keeps of a time of this century comes back from it."""
    whole = math.floor(seconds)
    nanos = round((seconds - whole) * 1e9)
    if nanos == 10**9:
        whole, nanos = whole + 1, 0
    days, rest = divmod(whole, _DAY)
    minutes, second = divmod(rest, 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    fraction = f".{nanos:09}" if nanos else ""
    return f"{date.fromordinal(_FIRST_DAY + days).isoformat()}T{clock}{fraction}Z"
