"""Records to events with their times, where times matter: what forgetting by time may and may not trust."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
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


class Intake(NamedTuple):
    """The good events (n, fields), their places where those matter, and the bad records.

    Places are times in seconds since 1970, or in a window of positions those of the first record of the same pane.
    """

    events: NDArray[np.float64]
    places: NDArray[np.float64] | None
    bad: list[Bad]


def take(spec: Spec, form: EventFormat, records: Sequence[Record], pane: int | None = None) -> Intake:
    """Decodes records and dates their events; where times matter, a record has one event (see spec/load.py).

    Where panes are of so many positions, events get their places.
    """
    if pane is not None and records:
        return _placed(form, records, pane)
    decoded = form.decode([record.value for record in records])
    if not spec.inference.by_time:
        return Intake(decoded.events, None, decoded.bad)
    return _dated(spec, decoded, records)


def _placed(form: EventFormat, records: Sequence[Record], pane: int) -> Intake:
    """Decodes pane by pane: what a format gives does not say which record an event is from."""
    events, places, bad, begin = [], [], [], 0
    for _, group in groupby(records, key=lambda record: record.offset // pane):
        here = list(group)
        decoded = form.decode([record.value for record in here])
        events.append(decoded.events)
        places.append(np.full(len(decoded.events), float(here[0].offset)))
        bad += [each._replace(place=begin + each.place) for each in decoded.bad]
        begin += len(here)
    return Intake(np.concatenate(events), np.concatenate(places), bad)


def _dated(spec: Spec, decoded: Decoded, records: Sequence[Record]) -> Intake:
    bad = {each.place for each in decoded.bad}
    places = [place for place in range(len(records)) if place not in bad]
    stamps = np.array([records[place].timestamp for place in places], dtype=np.float64) / 1000
    events, seconds, rule = decoded.events, stamps, ""
    if spec.time_field is not None:
        events, seconds = events[:, :-1], events[:, -1]
        rule = f"{spec.time_field.label}: must not be more than {AHEAD_S:g} seconds after the record's timestamp"
    stamped = (stamps >= 0) & (stamps <= times.LATEST)
    good = stamped & (seconds <= stamps + AHEAD_S)
    late = [
        Bad(places[i], rule if stamped[i] else "the record's timestamp must be of the years 1970 to 9999")
        for i in np.flatnonzero(~good)
    ]
    return Intake(events[good], seconds[good], sorted([*decoded.bad, *late]))
