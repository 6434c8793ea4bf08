"""What checks have found: the newest of each, and as much of the past as has room."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from streaminfer.measuring.measurement import Measurement
from streaminfer.measuring.published import Published
from streaminfer.runtime.api.snapshot import plain
from streaminfer.wire.snapshots import iso

MOST: Final = 5000
MOST_BYTES: Final = 32 << 20
"""Of the records of all measurements that are remembered."""
MOST_CHECKS: Final = 200


class Measurements:
    """Measurements of all checks, oldest first, each with its number and the bytes of its record."""

    def __init__(self) -> None:
        self._held: deque[tuple[int, int, Published]] = deque()
        self._bytes = 0
        self.newest: dict[tuple[str, str], Published] = {}
        """By check and subject. Replaced as a whole, so that any thread may read it; so is `shown`."""
        self.shown: tuple[tuple[int, Published], ...] = ()

    def add(self, number: int, size: int, found: Published) -> None:
        """Takes the record with a number; one that was read before is not taken again."""
        if self._held and number <= self._held[-1][0]:
            return
        place = (found.measurement.check, found.measurement.subject)
        if place in self.newest or len(self.newest) < MOST_CHECKS:
            self.newest = {**self.newest, place: found}
        self._held.append((number, size, found))
        self._bytes += size
        while self._bytes > MOST_BYTES or len(self._held) > MOST:
            self._bytes -= self._held.popleft()[1]

    def show(self) -> None:
        """Shows what was taken."""
        self.shown = tuple((number, found) for number, _, found in self._held)

    def page(self, check: str | None, since: int, limit: int) -> list[dict[str, Any]]:
        """The newest `limit` measurements after the number `since`, oldest first."""
        fits = [
            (number, found)
            for number, found in self.shown
            if number > since and check in {None, found.measurement.check}
        ]
        return [{"id": number, **document(found)} for number, found in fits[-limit:]]


def document(found: Published) -> dict[str, Any]:
    """A measurement with the version that it is of."""
    moment = found.moment
    return {
        **measured(found.measurement),
        "version": moment.version,
        "base_version": moment.base_version,
        "segment": moment.segment,
        "n_events": moment.n_events,
        "measured_at": iso(found.measured_at),
    }


def measured(found: Measurement) -> dict[str, Any]:
    """What a check found."""
    return {
        "check": found.check,
        "subject": found.subject,
        "status": found.status,
        "sentence": found.sentence,
        "remedy": found.remedy,
        "target": found.target,
        "n_draws": found.n_draws,
        "n_data": found.n_data,
        "seconds": found.seconds,
        "values": [value._asdict() for value in found.values],
        "curves": {name: plain(curve) for name, curve in found.curves.items()},
    }
