"""One unit in the hands of its owner: fenced, restored, moved on through segments, committed.

What is on the bus is all that a unit is. Draws and state are one commit, so a chain that was killed goes on after the
last draw that readers can see, with the same numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

from streaminfer.bus.protocol import Bus, Member, Output, Partition, Position, Reader, Record
from streaminfer.combining.questions import Answer
from streaminfer.runtime import names
from streaminfer.runtime.following.follower import MOST_IN_THE_WAY
from streaminfer.runtime.intact import is_removal, value_of
from streaminfer.runtime.owning.obstacles import InTheWay
from streaminfer.runtime.owning.owner import Owner
from streaminfer.runtime.pooling.draws_reader import DrawsReader
from streaminfer.runtime.sampling import stream
from streaminfer.runtime.sampling.course import Course, Shown
from streaminfer.runtime.sampling.segment_work import SegmentWork
from streaminfer.runtime.service import Fatal
from streaminfer.sampling import flat
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.states import NO_SEGMENT, SamplerState, waiting
from streaminfer.sampling.units import Unit
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import UnknownSchema, WireError
from streaminfer.wire.events.formats import max_events
from streaminfer.wire.sampled import answers as wire_answers
from streaminfer.wire.sampled import draws as wire_draws
from streaminfer.wire.sampled import sampler_states

log = logging.getLogger(__name__)

ENDED: Final = frozenset({"waiting", "done", "cut"})
"""Phases in which a chain waits for the next segment."""
KEPT_SEGMENTS: Final = 2
"""Segments of which draws stay on the topic."""
MOST_NUMBERS: Final = 1 << 27
"""Of a state: a gigabyte."""


class OwnedUnit:
    """Nothing can be done before it is `restored`."""

    def __init__(self, spec: Spec, settings: Settings, target: Any, bus: Bus, number: int, schemas: Schemas) -> None:
        self._spec, self._settings, self._target, self._bus, self._schemas = spec, settings, target, bus, schemas
        self.unit = Unit.numbered(number, settings)
        self._state_at = Partition(names.topic(spec, "sampler-state"), number)
        self._draws_at = Partition(names.topic(spec, "draws"), number)
        self._owner = self._fence()
        self._shelf = sampler_states.Shelf(spec.fingerprint, self.unit, MOST_NUMBERS, schemas, max_events(spec))
        self._reader: Reader | None = bus.reader({self._state_at: bus.starts(self._state_at.topic)[number]})
        self._end = bus.ends(self._state_at.topic)[number]
        self.state = waiting(spec.fingerprint, number)
        """As the bus has it."""
        self._written: str | None = None
        """The token of the set-up that the bus has."""
        self._ends: dict[int, int] | None = None
        """By segment, the step up to which its draws were on the topic at the restore; None after a commit."""
        self._last: Draws | None = None
        """The newest draws that were on the topic at the restore."""
        self.in_the_way: list[InTheWay] = []
        """Records of its state that the restore has stepped over."""
        self._course: Course | stream.StreamCourse | None = None

    def _fence(self) -> Owner:
        """Shuts out the owner before: what is restored after it can no longer change."""
        return Owner(self._bus, names.sampler_writer(self._spec, self.unit.number), [self._state_at, self._draws_at])

    def restored(self) -> bool:
        """Whether the newest state is here; each call reads on."""
        if self._reader is None:
            return True
        for part in self._reader.poll(0.0).slices:
            for record in part.records:
                self._take(record)
        position = self._reader.position(self._state_at)
        if position < self._end:
            return False
        self._owner.check_newest(position)
        self._reader.close()
        self._reader = None
        if self._shelf.newest is not None:
            self.state = self._shelf.newest
            self._written = sampler_states.token(self.state.setup)
        self._ends = self._drawn_to()
        said = (self.unit.number, self.state.segment, self.state.phase, self.state.step)
        log.info("chain %d: segment %d, %s, step %d", *said)
        return True

    def _drawn_to(self) -> dict[int, int]:
        """By segment, the step up to which draws follow each other on the topic."""
        size, ends = flat.size(self._target.shapes), dict[int, int]()
        arguments = (self._spec, self._settings, size, self._bus, self._schemas, [self.unit.number])
        with closing(DrawsReader(*arguments)) as reader:
            while not reader.at_end():
                for _, draws, _ in reader.poll(0.5):
                    if self._last is None or (draws.segment, draws.end) > (self._last.segment, self._last.end):
                        self._last = draws
                    if draws.begin == ends.get(draws.segment, 0):
                        ends[draws.segment] = draws.end
        return ends

    @property
    def newest(self) -> Segment | None:
        """The newest segment that its state or its draws are of."""
        found = [Segment(self.state.segment, self.state.frontier)] if self.state.segment != NO_SEGMENT else []
        found += [] if self._last is None else [Segment(self._last.segment, self._last.frontier)]
        return max(found, key=lambda each: each.number, default=None)

    @property
    def is_torn(self) -> bool:
        """Whether state and draws of the newest segment do not belong together, so that the next owner ends it."""
        newest = self.newest
        return newest is not None and self._is_torn(newest.number)

    def _is_torn(self, segment: int) -> bool:
        """Whether state and draws of a segment do not belong together: junk has taken the place of one of them."""
        begun = self.state.segment == segment != NO_SEGMENT
        if self._ends is None or (begun and self.state.phase == "cut"):
            return False
        return self._ends.get(segment) != (self.state.step if begun else None)

    def _take(self, record: Record) -> None:
        try:
            self._shelf.add(record.key, None if is_removal(record) else value_of(record))
        except UnknownSchema as error:
            raise Fatal(
                f"{record.partition} offset {record.offset}: {error}. The state was written by a newer version of "
                "streaminfer, or with a schema registry that is not set here. Run that version, or set the registry."
            ) from error
        except WireError as error:
            self.in_the_way = [*self.in_the_way, InTheWay(record, str(error))][-MOST_IN_THE_WAY:]
            log.warning("%s offset %d is ignored: %s", record.partition, record.offset, error)

    def wants(self, segment: Segment) -> bool:
        """Whether this chain is not through with a segment that is fixed."""
        if segment.number != self.state.segment:
            return segment.number > self.state.segment
        return self.state.phase not in ENDED or self._is_torn(segment.number)

    def begin(self, work: SegmentWork) -> None:
        """Starts on a segment, or goes on with it."""
        if not isinstance(self._course, Course) or self._course.work is not work:
            self._leave()
            arguments = (self._spec, self._bus, self._target, self.unit, self.state, work, self._schemas)
            self._course = Course(*arguments)
            if self._is_torn(work.segment.number):
                self._course.cut("its state and its draws do not belong together")

    def go_along(self, clock: Callable[[], float]) -> None:
        """Takes minibatches of the stream as they come."""
        if self._course is None:
            state, last = self.state, self._last
            if self._is_torn(max([state.segment, *(self._ends or {})])):
                lost = last is not None and (last.segment, last.end) > (state.segment, state.step)
                state = stream.anew(self._settings, state, last) if lost and last else stream.following(state)
                how = "begins anew, with a warm-up, after the events of its draws" if lost else "goes on"
                said = (self._state_at, self.unit.number, state.segment, how)
                log.warning("%s: state and draws of chain %d do not belong together: with segment %d it %s", *said)
            arguments = (self._spec, self._settings, self._bus, clock, self.unit, state, self._schemas)
            self._course = stream.StreamCourse(*arguments)

    def advance(self, shown: Shown | None) -> bool:
        """Does a part of what is left of the segment; False if there is nothing to do now. Raises Fatal."""
        return self._course is not None and self._course.advance(shown)

    @property
    def dirty(self) -> bool:
        """Whether something is not committed."""
        return self._course is not None and self._course.dirty

    @property
    def progress(self) -> str:
        """What the set-up of its segment is at; empty before and after it."""
        return self._course.progress if isinstance(self._course, Course) else ""

    @property
    def finished(self) -> bool:
        """Whether the segment has all its draws, so that a commit must come at once."""
        return self._course is not None and self._course.finished

    def commit(self, member: Member) -> None:
        """Draws and state in one transaction, which fails if another process owns the unit by now."""
        if self._course is None:
            return
        self.verify()  # a commit after one that is not in the log would leave its draws out for good
        self._course.before_commit()
        now, number = self._course.reached(), self.unit.number
        draws, block = self._course.draws(now)
        most = self._bus.max_record_bytes
        records = wire_draws.encode(draws, number, block, most, self._schemas)
        outputs = [Output(self._draws_at.topic, data, key, number) for key, data in records]
        outputs += self._tombstones(now)
        records = sampler_states.encode(now, most, self._schemas, self._written)
        outputs += [Output(self._state_at.topic, data, key, number) for key, data in records]
        self._owner.commit(outputs, {self._state_at: Position(now.block)}, member)
        self.state, self._written, self._ends = now, sampler_states.token(now.setup), None
        self._course.committed(now)

    def publish(self, answer: Answer, member: Member) -> None:
        """An answer in one transaction, which fails if another process owns the unit by now; the state stays."""
        records = wire_answers.encode(answer, self._spec.fingerprint, self._bus.max_record_bytes, self._schemas)
        topic = names.topic(self._spec, "answers")
        outputs = [Output(topic, data, key, self.unit.number) for key, data in records]
        self._owner.publish(outputs, {self._state_at: Position(self.state.block)}, member)

    def _tombstones(self, now: SamplerState) -> list[Output]:
        """With the first commit of a segment, those of the draws of segments that are not kept any more."""
        if now.segment == self.state.segment:
            return []
        number, old = self.unit.number, dict[bytes, bool]()
        start, end = (each(self._draws_at.topic)[number] for each in (self._bus.starts, self._bus.ends))
        with self._bus.reader({self._draws_at: start}) as reader:
            while reader.position(self._draws_at) < end:
                for record in (each for part in reader.poll(0.5).slices for each in part.records):
                    place = wire_draws.place_of(record.key)
                    if record.key is not None and (place is None or place.segment <= now.segment - KEPT_SEGMENTS):
                        old[record.key] = not is_removal(record)
        return [Output(self._draws_at.topic, None, key, number) for key, there in old.items() if there]

    def verify(self) -> None:
        """Raises Unavailable if a commit was reported as done and is not in the log."""
        self._owner.verify(f"step {self.state.step} of segment {self.state.segment}")

    def _leave(self) -> None:
        if self._course is not None:
            self._course.close()
            self._course = None

    def close(self) -> None:
        self._leave()
        if self._reader is not None:
            self._reader.close()
        self._owner.close()
