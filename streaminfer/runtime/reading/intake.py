"""Records to events with their times, if times matter: what forgetting by time may and may not trust."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Record
from streaminfer.models import times
from streaminfer.models.events import Events
from streaminfer.spec import Spec
from streaminfer.variational.forgetting.reached import Believed, Reached, believe
from streaminfer.wire.events.json_events import Bad, EventFormat


class Intake(NamedTuple):
    """The good events of some records, the bad records, and what is known of the events' times."""

    events: Events
    places: NDArray[np.float64] | None
    """(n,), if they matter: times in seconds since 1970, or the positions of their records."""
    bad: list[Bad]
    at: NDArray[np.intp]
    """(n,): which of the records each event is of."""
    stamps: NDArray[np.float64] | None = None
    """(n,), if there are keys: the timestamps of their records, in milliseconds since 1970."""
    reached: Reached = ()
    """The time that the partition has reached with these events, if times matter."""
    n_ahead: int = 0
    """Events whose time was too far ahead of that, and counts as of it."""


def take(
    spec: Spec, form: EventFormat, records: Sequence[Record], by_position: bool = False, reached: Reached = ()
) -> Intake:
    """Decodes records and dates their events, or says at which positions they are.

    Their partition has `reached` what the events before them say.
    """
    taken = _decoded(spec, form, records, by_position)
    if not spec.times_matter:
        return taken
    return _believed(spec, taken, reached) if taken.events.n else taken._replace(reached=reached)


def _believed(spec: Spec, taken: Intake, before: Reached) -> Intake:
    """The same with times as they count. Those of records are a series of their own unless they are the events'."""
    found: list[Believed] = []
    if spec.inference.by_time and taken.places is not None:
        found.append(believe(taken.places, before))
        taken = taken._replace(places=found[0].times)
    if taken.stamps is not None and spec.expires:
        stamps = taken.stamps
        if not found or spec.time_field is not None:
            found.append(believe(stamps / 1000, before, len(found)))
        counted = found[-1].times
        stamps = np.where(counted == stamps / 1000, stamps, np.floor(1000 * counted))
        taken = taken._replace(stamps=stamps)
    reached = tuple(number for each in found for number in each.state)
    return taken._replace(reached=reached, n_ahead=max(each.n_ahead for each in found))


def _decoded(spec: Spec, form: EventFormat, records: Sequence[Record], by_position: bool) -> Intake:
    if spec.inference.by_time:
        taken = _dated(spec, form, records)
    else:
        decoded = form.decode([record.value for record in records])
        taken = Intake(decoded.events, None, decoded.bad, decoded.places)
    if by_position:
        positions = np.array([record.offset for record in records], dtype=np.float64)
        taken = taken._replace(places=positions[taken.at])
    if taken.events.keys is None:
        return taken
    # Milliseconds before 1970 count as 0: a client may write anything.
    stamps = np.array([record.timestamp for record in records], dtype=np.float64)[taken.at]
    return taken._replace(stamps=np.clip(stamps, 0.0, 1000 * times.LATEST))


def _dated(spec: Spec, form: EventFormat, records: Sequence[Record]) -> Intake:
    """The time of an event is in it, or else its record's timestamp; without a timestamp a record cannot be judged."""
    stamps = np.array([record.timestamp for record in records], dtype=np.float64) / 1000
    stamped = (stamps >= 0) & (stamps <= times.LATEST)
    places = np.flatnonzero(stamped)
    decoded = form.decode([records[place].value for place in places.tolist()], stamps[places])
    bad = [each._replace(place=int(places[each.place])) for each in decoded.bad]
    bad += [Bad(int(i), "the record's timestamp must be of the years 1970 to 9999") for i in np.flatnonzero(~stamped)]
    at = places[decoded.places]
    events, seconds = decoded.events, stamps[at]
    if spec.time_field is not None:
        events, seconds = events.parted()
    return Intake(events, seconds, sorted(bad), at)
