"""Records to events with their times, where times matter: what forgetting by time may and may not trust."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Record
from streaminfer.models import times
from streaminfer.spec import Spec
from streaminfer.wire.events import Bad, Decoded, EventFormat

AHEAD_S: Final = 3600.0
"""Seconds that an event's time may be ahead of its record's timestamp, as clocks differ.

One event of the year 9999 would make all others weightless. It is held against the record's timestamp and not against
a clock, so that a replay decides the same.
"""


class Keys(NamedTuple):
    """The different keys of some events in order, which of them each event has (n,), and its record's timestamp."""

    labels: list[bytes]
    groups: NDArray[np.intp]
    stamps: NDArray[np.float64]


class Intake(NamedTuple):
    """The good events (n, fields), their times in seconds since 1970 where those matter, and the bad records."""

    events: NDArray[np.float64]
    times: NDArray[np.float64] | None
    bad: list[Bad]
    keys: Keys | None = None


def take(spec: Spec, form: EventFormat, records: Sequence[Record]) -> Intake:
    """Decodes records and dates their events; where times matter, a record has one event (see spec/load.py)."""
    decoded = form.decode([record.value for record in records])
    taken, places = Intake(decoded.events, None, decoded.bad), decoded.places
    if spec.inference.by_time:
        taken, places = _dated(spec, decoded, records)
    if spec.key is None:
        return taken
    return _keyed(taken, decoded.labels, np.array([records[place].timestamp for place in places], dtype=np.float64))


def _keyed(taken: Intake, found: Sequence[bytes], stamps: NDArray[np.float64]) -> Intake:
    """The key's column apart from the others. Milliseconds before 1970 count as 0: a client may write anything."""
    codes, groups = np.unique(taken.events[:, -1].astype(np.intp), return_inverse=True)
    labels = [found[code] for code in codes.tolist()]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    keys = Keys([labels[i] for i in order], rank[groups], np.clip(stamps, 0.0, 1000 * times.LATEST))
    return taken._replace(events=taken.events[:, :-1], keys=keys)


def _dated(spec: Spec, decoded: Decoded, records: Sequence[Record]) -> tuple[Intake, NDArray[np.intp]]:
    places = decoded.places
    stamps = np.array([records[place].timestamp for place in places], dtype=np.float64) / 1000
    events, seconds, rule = decoded.events, stamps, ""
    if spec.time_field is not None:
        events, seconds = events[:, :-1], events[:, -1]
        rule = f"{spec.time_field.label}: must not be more than {AHEAD_S:g} seconds after the record's timestamp"
    stamped = (stamps >= 0) & (stamps <= times.LATEST)
    good = stamped & (seconds <= stamps + AHEAD_S)
    late = [
        Bad(int(places[i]), rule if stamped[i] else "the record's timestamp must be of the years 1970 to 9999")
        for i in np.flatnonzero(~good)
    ]
    return Intake(events[good], seconds[good], sorted([*decoded.bad, *late])), places[good]
