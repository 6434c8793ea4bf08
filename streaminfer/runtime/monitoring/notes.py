"""What is on the topics `metrics` and `health`: the newest measurement of each check, and who lives."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from streaminfer.bus.protocol import Bus, OutOfRange, Partition, Record
from streaminfer.measuring.published import Published
from streaminfer.runtime import names
from streaminfer.runtime.monitoring.pulse import GONE_MS, SILENT_MS
from streaminfer.runtime.running.patience import Teller
from streaminfer.spec import Spec
from streaminfer.wire import beats, measurements
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.beats import Beat
from streaminfer.wire.errors import WireError

log = logging.getLogger(__name__)

BACK: Final = {measurements.TOPIC: 20_000, beats.TOPIC: 2_000}
"""How many positions of each topic are read again at a start."""
MOST: Final = 1_000
"""Checks, or processes, that are kept."""
_POLL_S: Final = 0.5


class Heard(NamedTuple):
    """The newest beat of a process, and when it was written, in milliseconds since 1970."""

    beat: Beat
    at: int


class Notes:
    """Reads both topics of a posterior. Records that are not what they should be are ignored and counted."""

    def __init__(self, spec: Spec, bus: Bus, schemas: Schemas = DECLARED, topics: Sequence[str] = tuple(BACK)) -> None:
        self._spec, self._bus, self._schemas, self._teller = spec, bus, schemas, Teller(log)
        self._names = {names.topic(spec, short): short for short in topics}
        self.measured: dict[tuple[str, str], Published] = {}
        """By check and subject."""
        self.heard: dict[tuple[str, str], Heard] = {}
        """By service and instance."""
        self.n_ignored = 0
        self._ends = {Partition(topic, i): end for topic in self._names for i, end in bus.ends(topic).items()}
        starts = {topic: bus.starts(topic) for topic in self._names}
        self._reader = bus.reader(
            {at: max(starts[at.topic][at.index], end - BACK[self._names[at.topic]]) for at, end in self._ends.items()}
        )

    @property
    def caught_up(self) -> bool:
        """Whether all is read that was there at the start."""
        self._ends = {each: end for each, end in self._ends.items() if self._reader.position(each) < end}
        return not self._ends

    def catch_up(self) -> None:
        """Reads all that was there at the start."""
        while not self.caught_up:
            self.poll(_POLL_S)

    def poll(self, timeout: float) -> list[Published]:
        """Takes in what has come; the measurements among it."""
        try:
            polled = self._reader.poll(timeout)
        except OutOfRange as error:
            self._reader.seek(error.partition, error.start)  # retention was faster
            return []
        come = []
        for part in polled.slices:
            for record in part.records:
                found = self._take(record)
                if found is not None:
                    come.append(found)
        return come

    def _take(self, record: Record) -> Published | None:
        try:
            if self._names[record.partition.topic] == measurements.TOPIC:
                return self._measurement(record)
            self._beat(record)
        except WireError as error:
            self.n_ignored += 1
            self._teller.tell(f"{record.partition} offset {record.offset} is ignored: {error}")
        return None

    def _measurement(self, record: Record) -> Published:
        found = measurements.decode(record.key, record.value, self._spec.fingerprint, self._schemas)
        place = (found.measurement.check, found.measurement.subject)
        if place in self.measured or len(self.measured) < MOST:
            self.measured[place] = found
        return found

    def _beat(self, record: Record) -> None:
        if record.value is None:
            service, _, instance = (record.key or b"").decode("utf-8", "replace").partition("/")
            self.heard.pop((service, instance), None)
            return
        beat = beats.decode(record.key, record.value, self._schemas)
        place = (beat.service, beat.instance)
        if place not in self.heard and len(self.heard) >= MOST:
            del self.heard[min(self.heard, key=lambda each: self.heard[each].at)]
        self.heard[place] = Heard(beat, record.timestamp)

    def silent(self, now: int) -> dict[tuple[str, str], Heard]:
        """Processes that have not beaten for long and did not say that they end; `now` is in milliseconds."""
        return {place: each for place, each in self.heard.items() if SILENT_MS < now - each.at <= GONE_MS}

    def close(self) -> None:
        self._reader.close()
