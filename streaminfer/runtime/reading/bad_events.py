"""Which records of a minibatch are events, and which become dead letters because they cannot be read as events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Output, Record, Unreadable
from streaminfer.runtime.dead_letters.store import letter_output
from streaminfer.runtime.reading import intake
from streaminfer.runtime.reading.intake import Intake
from streaminfer.spec import Spec
from streaminfer.variational.forgetting.reached import Reached
from streaminfer.wire.events.json_events import EventFormat


class Refused(NamedTuple):
    """A record with bad events. If it has good ones too, `rest` has the bad ones alone."""

    record: Record
    reason: str
    rest: bytes | None = None


class Judged(NamedTuple):
    """The good events of some records, and the records that have bad ones."""

    taken: Intake
    refused: list[Refused]
    n_bad: int
    """Bad events, of which one record may have many."""
    records: Sequence[Record]
    """Those that the bus could read, whatever is in them."""

    @property
    def n_readable(self) -> int:
        return len(self.records)

    def positions(self) -> NDArray[np.int64]:
        """Those of the records of the good events, (n,)."""
        return np.array([record.offset for record in self.records], dtype=np.int64)[self.taken.at]

    def letters(self, spec: Spec, since: Mapping[int, int] | None = None) -> list[Output]:
        """Dead letters of the bad events; with `since`, only of those from these positions on, by partition."""
        return [
            letter_output(spec, *each)
            for each in self.refused
            if since is None or each.record.offset >= since.get(each.record.partition.index, 0)
        ]


def judge(
    spec: Spec, form: EventFormat, records: Sequence[Record], by_position: bool = False, reached: Reached = ()
) -> Judged:
    """Decodes records and tells good events from bad ones; see `intake.take`.

    A record that the bus itself could not read is one bad event.
    """
    faulty: list[Unreadable] = []
    if Unreadable in set(map(type, records)):
        faulty = [record for record in records if isinstance(record, Unreadable)]
        records = [record for record in records if not isinstance(record, Unreadable)]
    taken = intake.take(spec, form, records, by_position, reached)
    refused = [Refused(records[bad.place], bad.reason, bad.rest) for bad in taken.bad]
    refused += [Refused(record, record.fault) for record in faulty]
    return Judged(taken, refused, sum(bad.n_events for bad in taken.bad) + len(faulty), records)
