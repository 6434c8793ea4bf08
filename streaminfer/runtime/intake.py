"""Records to events with their times, where times matter: what forgetting by time may and may not trust."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Record
from streaminfer.models import times
from streaminfer.spec import Spec
from streaminfer.wire.events import Bad, EventFormat


class Intake(NamedTuple):
    """The good events (n, fields), their places where those matter, and the bad records.

    Places are times in seconds since 1970, or the positions of their records.
    """

    events: NDArray[np.float64]
    places: NDArray[np.float64] | None
    bad: list[Bad]


def take(spec: Spec, form: EventFormat, records: Sequence[Record], by_position: bool = False) -> Intake:
    """Decodes records and dates their events, or says at which positions they are."""
    if spec.inference.by_time:
        return _dated(spec, form, records)
    decoded = form.decode([record.value for record in records])
    if not by_position:
        return Intake(decoded.events, None, decoded.bad)
    positions = np.array([record.offset for record in records], dtype=np.float64)
    return Intake(decoded.events, positions[decoded.places], decoded.bad)


def _dated(spec: Spec, form: EventFormat, records: Sequence[Record]) -> Intake:
    """The time of an event is in it, or else its record's timestamp; without a timestamp a record cannot be judged."""
    stamps = np.array([record.timestamp for record in records], dtype=np.float64) / 1000
    stamped = (stamps >= 0) & (stamps <= times.LATEST)
    places = np.flatnonzero(stamped)
    decoded = form.decode([records[place].value for place in places.tolist()], stamps[places])
    bad = [each._replace(place=int(places[each.place])) for each in decoded.bad]
    bad += [Bad(int(i), "the record's timestamp must be of the years 1970 to 9999") for i in np.flatnonzero(~stamped)]
    if spec.time_field is None:
        return Intake(decoded.events, stamps[places[decoded.places]], sorted(bad))
    return Intake(decoded.events[:, :-1], decoded.events[:, -1], sorted(bad))
