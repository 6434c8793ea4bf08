"""Follows all topics of a posterior into a memory."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from streaminfer.bus.protocol import Bus, OutOfRange, Partition, Record
from streaminfer.measuring.published import Moment, Published
from streaminfer.runtime import names
from streaminfer.runtime.api.readers import Reader, reader_of
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.monitoring.memory import history
from streaminfer.runtime.monitoring.memory.keys import KeyIndex
from streaminfer.runtime.monitoring.memory.memory import Memory, Part, Reading
from streaminfer.runtime.monitoring.memory.shown import shown
from streaminfer.runtime.running.patience import Teller
from streaminfer.runtime.supervising.chains import Chains
from streaminfer.spec import Spec
from streaminfer.tables.kinds import KEYED, kind_of
from streaminfer.wire import beats, measurements
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import WireError

log = logging.getLogger(__name__)

BACK: Final = {"metrics": 20_000, "health": 2_000, "dead-letters": 1_000}
"""How many positions of each topic are read again at a start."""
ONCE_S: Final = 0.2
"""Seconds that one look at the bus waits for what is already there."""
SHARE: Final = 0.2
"""Of the time that may go into documents: a large posterior is shown less often."""
PUBLISH_S: Final = 5.0
PUBLISH_BYTES: Final = 400.0
"""A second, of the history that is published."""


class Filler:
    """Reads what has come, at each `poll`, into a memory."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        memory: Memory,
        schemas: Schemas = DECLARED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec, self._bus, self._memory, self._schemas, self._clock = spec, bus, memory, schemas, clock
        self._teller = Teller(log)
        self._posterior = _Keyed(spec, bus, memory, schemas) if _is_keyed(spec) else _Whole(spec, bus, memory, schemas)
        self._chains = None if spec.sampling is None else Chains(spec, spec.sampling, bus, schemas)
        read = names.there(spec, bus, BACK)
        begins = {partition: begin for short in read for partition, begin in _begins(bus, spec, short).items()}
        self._ends = {each: end for short in read for each, end in _ends(bus, spec, short).items()}
        self._others = bus.reader(begins)
        self._next_shown, self._next_published, self._published = -1e9, -1e9, 0

    @property
    def caught_up(self) -> bool:
        """Whether the past is in memory: all that was there at the start was read."""
        self._ends = {each: end for each, end in self._ends.items() if self._others.position(each) < end}
        return not self._ends

    def poll(self, timeout: float) -> None:
        """One turn; waits for the posterior alone."""
        begun = self._clock()
        late = begun < self._next_shown
        if late:
            time.sleep(min(timeout, self._next_shown - begun))
        else:
            self._show(timeout)
        self._follow_others()
        if self._chains is not None:
            self._chains.poll()
            newest = self._memory.posterior
            self._memory.chains = self._chains.said(None if newest is None else newest.found.snapshot)

    def _show(self, timeout: float) -> None:
        begun = self._clock()
        found = self._posterior.poll(timeout)
        if found is None:
            return
        begun = self._clock()
        made = shown(found)
        self._memory.show(made)
        if self.caught_up:
            self._memory.remember(made)
        self._next_shown = self._clock() + (self._clock() - begun) * (1 / SHARE - 1)

    def _follow_others(self) -> None:
        was_behind = not self.caught_up
        try:
            polled = self._others.poll(0.0)
        except OutOfRange as error:
            if error.position > error.end:
                raise
            self._others.seek(error.partition, error.start)
            return
        changed: set[Part] = set()
        for part in polled.slices:
            take = self._takers[part.partition.topic]
            for record in part.records:
                changed.update(take(record))
        if "metrics" in changed:
            self._memory.measurements.show()
        if "dead-letters" in changed:
            self._memory.dead_letters.show()
        if changed:
            self._memory.changed(*changed)
        newest = self._memory.posterior
        if was_behind and self.caught_up and newest is not None:
            self._memory.remember(newest)

    @property
    def _takers(self) -> dict[str, Callable[[Record], tuple[Part, ...]]]:
        takers = {"metrics": self._take_measurement, "health": self._take_beat, "dead-letters": self._take_letter}
        return {names.topic(self._spec, short): take for short, take in takers.items()}

    def _take_measurement(self, record: Record) -> tuple[Part, ...]:
        try:
            found = measurements.decode(record.key, record.value, self._spec.fingerprint, self._schemas)
        except WireError as error:
            self._teller.tell(f"{record.partition} offset {record.offset} is not a measurement: {error}")
            return ()
        if found.measurement.check == history.CHECK:
            for point in history.published_points(found):
                self._memory.history.add(point)
            self._published = max(self._published, found.moment.version)
            return ()
        self._memory.measurements.add(record.offset, len(record.value or b""), found)
        return ("metrics",)

    def _take_beat(self, record: Record) -> tuple[Part, ...]:
        if record.value is None:
            return ("services",) if self._memory.services.end(record.key) else ()
        try:
            beat = beats.decode(record.key, record.value, self._schemas)
        except WireError as error:
            self._teller.tell(f"{record.partition} offset {record.offset} is not a beat: {error}")
            return ()
        return ("services",) if self._memory.services.add(beat, record.timestamp) else ()

    def _take_letter(self, record: Record) -> tuple[Part, ...]:
        return ("dead-letters",) if self._memory.dead_letters.add(record) else ()

    def unpublished(self) -> Published | None:
        """What the monitor that comes after this one has to know of the history now: the newest point, and as many
        of those since the one before as may be written."""
        newest, points = self._memory.posterior, self._memory.history.points
        due = self._clock() >= self._next_published
        if newest is None or not self.caught_up or not points or points[-1].version <= self._published or not due:
            return None
        point, snapshot = points[-1], newest.found.snapshot
        pending = [each for each in points[:-1] if each.version > self._published]
        self._published = point.version
        size = 24 * len(point.means) + 200
        room = max(0, int(PUBLISH_BYTES * PUBLISH_S / size) - 1)
        earlier = [pending[i] for i in history.spread(len(pending), room)] if room else []
        self._next_published = self._clock() + max(PUBLISH_S, size * (1 + len(earlier)) / PUBLISH_BYTES)
        moment = Moment(point.version, 0, snapshot.frontier.epoch, 0, snapshot.frontier.positions, point.n_events)
        return Published(snapshot.fingerprint, self._memory.instance, point.at, moment, point.measurement(earlier))

    def close(self) -> None:
        for each in (self._posterior, self._others, self._chains):
            if each is not None:
                each.close()


def fill_once(spec: Spec, bus: Bus, memory: Memory, schemas: Schemas = DECLARED) -> None:
    """Takes in what is on the bus now, and waits for nothing that may come."""
    filler = Filler(spec, bus, memory, schemas)
    before: tuple[int | None, int] = (-1, -1)
    try:
        while not filler.caught_up or before != _read_so_far(memory):
            before = _read_so_far(memory)
            filler.poll(ONCE_S)
    finally:
        filler.close()


def _read_so_far(memory: Memory) -> tuple[int | None, int]:
    """The version that is shown, and how far the keys are read."""
    return (None if memory.posterior is None else memory.posterior.version), memory.reading.read


def _is_keyed(spec: Spec) -> bool:
    return kind_of(spec) is KEYED


def _begins(bus: Bus, spec: Spec, short: str) -> dict[Partition, int]:
    """Positions some way before the ends of a topic."""
    starts = bus.starts(names.topic(spec, short))
    return {each: max(starts[each.index], end - BACK[short]) for each, end in _ends(bus, spec, short).items()}


def _ends(bus: Bus, spec: Spec, short: str) -> dict[Partition, int]:
    topic = names.topic(spec, short)
    return {Partition(topic, index): end for index, end in bus.ends(topic).items()}


class _Whole:
    """A posterior of all events."""

    def __init__(self, spec: Spec, bus: Bus, memory: Memory, schemas: Schemas) -> None:
        memory.reading = Reading(1, 1)
        self._reader: Reader = reader_of(spec, bus, None, schemas)

    def poll(self, timeout: float) -> PosteriorSnapshot | None:
        found = self._reader.poll(timeout)
        return found[-1] if found else None

    def close(self) -> None:
        self._reader.close()


class _Keyed:
    """The posteriors of keys, in an index."""

    def __init__(self, spec: Spec, bus: Bus, memory: Memory, schemas: Schemas) -> None:
        self._spec, self._bus, self._memory = spec, bus, memory
        self._index = KeyIndex(spec, schemas)
        self._shards = Shards(spec, bus, schemas, self._index.rows)
        self._ends = bus.ends(names.topic(spec, "posterior"))
        memory.keys = self._index

    def poll(self, timeout: float) -> PosteriorSnapshot | None:
        found = self._shards.poll(0.0 if not self._index.complete else timeout)
        if not self._index.complete:
            self._settle()
        return PosteriorSnapshot(self._spec, found[-1]) if found else None

    def _settle(self) -> None:
        """Lets readers see the shards that were read to their ends."""
        positions = self._shards.positions
        for rows, position, end in zip(self._index.rows, positions, self._ends.values(), strict=True):
            if position >= end:
                rows.settle()
        read = sum(min(position, end) for position, end in zip(positions, self._ends.values(), strict=True))
        self._memory.reading = Reading(read, sum(self._ends.values()))

    def close(self) -> None:
        self._memory.keys = None
        self._shards.close()
        with suppress(OSError):
            self._index.close()
