"""One unit in the hands of its owner: fenced, restored, moved on through segments, committed.

What is on the bus is all that a unit is: draws and state are one commit, so a chain that was killed goes on after the
last draw that anybody can see, with the same numbers.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.bus.protocol import Bus, Member, Output, Partition, Position, Reader
from streaminfer.models.model import Matrix
from streaminfer.runtime import names
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.owning.owner import Owner
from streaminfer.runtime.sampling.new_events import NewEvents
from streaminfer.runtime.sampling.segment_events import Removed
from streaminfer.runtime.sampling.segment_work import SegmentWork
from streaminfer.runtime.service import Fatal
from streaminfer.sampling import flat
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import packing
from streaminfer.sampling.chains.chain import Chain, Diverged, Drawn
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.draws import Counters, Draws
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.states import NO_SEGMENT, SamplerState
from streaminfer.sampling.units import Unit
from streaminfer.spec import Spec
from streaminfer.wire import draws as wire_draws
from streaminfer.wire import sampler_states
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import UnknownSchema, WireError
from streaminfer.wire.events.formats import max_events

log = logging.getLogger(__name__)

ENDED: Final = frozenset({"waiting", "done", "cut"})
"""Phases in which a chain waits for the next segment."""
KEPT_SEGMENTS: Final = 2
"""Segments of which draws stay on the topic."""


class Shown(NamedTuple):
    """What a snapshot shows: the draws (n, D) of a segment that is complete."""

    segment: int
    draws: Matrix


class OwnedUnit:
    """Nothing can be done before it is `restored`."""

    def __init__(self, spec: Spec, settings: Settings, target: Any, bus: Bus, number: int, schemas: Schemas) -> None:
        self._spec, self._settings, self._target, self._bus, self._schemas = spec, settings, target, bus, schemas
        self.unit = Unit.numbered(number, settings)
        self._state_at = Partition(names.topic(spec, "sampler-state"), number)
        self._draws_at = Partition(names.topic(spec, "draws"), number)
        self._owner = Owner(bus, names.sampler_writer(spec, number), [self._state_at, self._draws_at])
        self._size = flat.size(target.shapes)
        most = sampler_states.most_numbers(target.dimension, self._size)
        self._shelf = sampler_states.Shelf(spec.fingerprint, self.unit, most, schemas, max_events(spec))
        self._reader: Reader | None = bus.reader({self._state_at: bus.starts(self._state_at.topic)[number]})
        self._end = bus.ends(self._state_at.topic)[number]
        self.state = self._now = self._nothing()
        """As the bus has it."""
        self._ended = False
        """Whether the segment has ended without a chain, and that is not committed."""
        self._written: str | None = None
        self._position = 0
        self._work: SegmentWork | None = None
        self._news: NewEvents | None = None
        self._prepared: Prepared | None = None
        self._chain: Chain | None = None
        self._drawn: list[Drawn] = []
        self._drawn_from = (0, 0)
        """Block and step before the draws that are not committed."""

    def _nothing(self) -> SamplerState:
        empty = np.empty(0)
        return SamplerState(
            self._spec.fingerprint, self.unit.number, NO_SEGMENT, "waiting", 0, 0, 0, 1, (), 0, "", Counters(), empty,
            empty, 0, 0, "",
        )  # fmt: skip

    def restored(self) -> bool:
        """Whether the newest state is here; each call reads on."""
        if self._reader is None:
            return True
        for part in self._reader.poll(0.0).slices:
            for record in part.records:
                self._take(record.key, value_of(record) if record.value is not None else None, record.offset)
        if self._reader.position(self._state_at) < self._end:
            return False
        self._owner.check_newest(self._reader.position(self._state_at))
        self._reader.close()
        self._reader = None
        if self._shelf.newest is not None:
            self.state = self._now = self._shelf.newest
            self._written = sampler_states.token(self.state.setup)
        log.info("%s: segment %d, %s, step %d", self._name, self.state.segment, self.state.phase, self.state.step)
        return True

    @property
    def _name(self) -> str:
        return f"{self._spec.name}.sampler.{self.unit.number}"

    def _take(self, key: bytes | None, value: bytes | None, offset: int) -> None:
        try:
            self._shelf.add(key, value)
        except UnknownSchema as error:
            raise Fatal(
                f"{self._state_at} offset {offset}: {error}. The state was written by a newer version of streaminfer, or "
                "with a schema registry that is not set here. Run that version, or set the registry."
            ) from error
        except WireError as error:
            log.warning("%s offset %d is ignored: %s", self._state_at, offset, error)

    def wants(self, segment: Segment | None) -> bool:
        """Whether a segment that is fixed is a new one for this chain."""
        return segment is not None and (segment.number > self.state.segment or self.state.phase not in ENDED)

    def begin(self, work: SegmentWork) -> None:
        """Starts on a segment, or goes on with it."""
        if self._work is work:
            return
        self._forget()
        self._work = work

    def _forget(self) -> None:
        if self._news is not None:
            self._news.close()
        self._work, self._news, self._prepared, self._chain = None, None, None, None
        self._drawn, self._ended, self._now = [], False, self.state

    def advance(self, shown: Shown | None) -> str | None:
        """A part of the work on the segment: what it did, or None if there is nothing to do now. Raises Fatal."""
        if self._work is None or self.finished:
            return None
        try:
            return self._advance(self._work, shown)
        except Removed as error:
            log.warning("%s: segment %d is cut: %s", self._name, self._work.segment.number, error)
            self._end_without_draws(self._work, "cut")
            return "cut"
        except Diverged as error:
            raise Fatal(f"{self._name}: {error}") from error

    def _advance(self, work: SegmentWork, shown: Shown | None) -> str | None:
        if not work.read(0.0):
            return None if work.rows.waits else work.progress
        if self._is_other(work):
            self._end_without_draws(work, "cut")
            return "cut"
        if self._prepared is None:
            if work.about.n_events == 0:
                return self._without_events(work, shown)
            if self.state.segment == work.segment.number:
                work.offer(self.state.setup)
            if not work.set_up():
                return work.progress
            if self._lacks_news(work, shown):
                return "looking at new events"
            self._prepared = work.prepared(self.unit)
            self._resume(work, self._prepared)
            return "set up"
        if self._chain is None or self._chain.done:
            return None
        self._chain, drawn = chains.advance(self._prepared, self._chain)
        self._drawn.append(drawn)
        return self._chain.phase

    def _without_events(self, work: SegmentWork, shown: Shown | None) -> str:
        if self._lacks_news(work, shown):
            return "looking at new events"
        log.warning("%s: segment %d has no good event", self._name, work.segment.number)
        self._end_without_draws(work, "done")
        return "done"

    def _is_other(self, work: SegmentWork) -> bool:
        """Whether the log no longer gives the events that this chain has begun with."""
        begun = self.state.segment == work.segment.number and self.state.digest != ""
        return begun and self.state.digest != work.about.digest

    def _lacks_news(self, work: SegmentWork, shown: Shown | None) -> bool:
        """Whether new events are to be looked at first; chain 0 does that before anything of the segment is committed."""
        if self.unit.chain != 0 or self.state.segment == work.segment.number:
            return False
        if self._news is None:
            known = shown is not None and shown.segment == work.segment.number - 1
            draws = shown.draws if shown is not None and known and len(shown.draws) else None
            if work.about.n_dead_lettered == 0 and draws is None:
                return False
            before = self.state.frontier
            self._news = NewEvents(self._spec, self._bus, self._target, work.segment, before, draws, self._schemas)
        return not self._news.step(0.0)

    def _resume(self, work: SegmentWork, prepared: Prepared) -> None:
        """The chain where its state is, or at the start of the segment."""
        state = self.state
        if state.segment == work.segment.number:
            kernel_state = chains.unpacked(prepared, state.values)
            self._chain = Chain(state.phase, state.step, state.block, state.n_drawn, kernel_state, state.counters)
        else:
            self._chain = chains.begin(prepared, self._last_position(prepared))
        self._drawn_from = (self._chain.block, self._chain.step)

    def _last_position(self, prepared: Prepared) -> Any:
        """Where the chain was at the end of the segment before; None if that is unknown, or of another dimension."""
        if not len(self.state.values):
            return None
        try:
            return chains.kernel_of(prepared).position(chains.unpacked(prepared, self.state.values))
        except ValueError:
            return None

    def _end_without_draws(self, work: SegmentWork, phase: str) -> None:
        """A segment without a good event, or one that the log no longer has: the chain waits for the next."""
        about = work.rows.about
        self._now = replace(
            self.state,
            segment=work.segment.number,
            phase=phase,
            frontier=work.segment.spans,
            n_events=0 if about is None else about.n_events,
            n_dead_lettered=0 if about is None else about.n_dead_lettered,
            digest="",
            step=0,
            block=0,
            n_drawn=0,
            counters=Counters(),
        )
        self._chain, self._ended = None, True

    @property
    def dirty(self) -> bool:
        """Whether something is not committed."""
        return self._ended or (self._chain is not None and (self._chain.block, self._chain.step) != self._drawn_from)

    @property
    def finished(self) -> bool:
        """Whether the segment is at its end, so that a commit must come at once."""
        return self._ended or (self._chain is not None and self._chain.done and self.dirty)

    @property
    def n_drawn(self) -> int:
        return self.state.n_drawn if self._chain is None else self._chain.n_drawn

    def commit(self, member: Member) -> None:
        """Draws and state in one transaction, which also fails if another process owns the unit by now."""
        if self._work is None:
            return
        now = self._now if self._chain is None else self._reached(self._work, self._chain)
        outputs = self._draws(self._work, now) + self._tombstones(now)
        records = sampler_states.encode(now, self._bus.max_record_bytes, self._schemas, self._written)
        outputs += [Output(self._state_at.topic, data, key, self.unit.number) for key, data in records]
        self._position += 1
        self._owner.commit(outputs, {self._state_at: Position(self._position)}, member)
        self.state, self._now = now, now
        self._written = sampler_states.token(now.setup)
        self._drawn, self._ended = [], False
        if self._chain is not None:
            self._drawn_from = (self._chain.block, self._chain.step)

    def _reached(self, work: SegmentWork, chain: Chain) -> SamplerState:
        setup = work.setup
        if setup is None:
            raise RuntimeError("a chain without a set-up")
        return replace(
            self.state,
            segment=work.segment.number,
            phase=chain.phase,
            step=chain.step,
            block=chain.block,
            n_drawn=chain.n_drawn,
            thin=setup.thin,
            frontier=work.segment.spans,
            n_events=work.about.n_events,
            n_dead_lettered=work.about.n_dead_lettered,
            digest=work.about.digest,
            counters=chain.counters,
            values=chains.packed(chain),
            setup=packing.flatten(setup),
            topic_id=work.topic_id,
        )

    def _draws(self, work: SegmentWork, now: SamplerState) -> list[Output]:
        """The draws since the last commit, maybe none; they also say how far the chain is."""
        block, step = self._drawn_from if self._chain is not None else (0, 0)
        drawn, news = self._drawn, self._news if now.segment != self.state.segment else None
        draws = Draws(
            fingerprint=self._spec.fingerprint,
            subposterior=self.unit.subposterior,
            chain=self.unit.chain,
            segment=now.segment,
            phase=now.phase,
            begin=step,
            end=now.step,
            thin=now.thin,
            size=0.0 if work.setup is None else work.setup.size,
            noise=0.0 if work.setup is None else work.setup.noise,
            values=np.concatenate([np.empty((0, self._size)), *(each.values for each in drawn)]),
            weights=np.concatenate([np.empty(0), *(each.weights for each in drawn)]),
            log_density=np.concatenate([np.empty(0), *(each.log_density for each in drawn)]),
            counters=now.counters,
            n_events=now.n_events,
            n_dead_lettered=now.n_dead_lettered,
            n_lost=now.n_lost,
            frontier=now.frontier,
            score=0.0 if news is None else news.score,
            n_scored=0 if news is None else news.n_scored,
        )
        place = wire_draws.Place(self.unit.number, now.segment, block)
        records = wire_draws.encode(draws, place, self._bus.max_record_bytes, self._schemas)
        return [Output(self._draws_at.topic, data, key, self.unit.number) for key, data in records]

    def _tombstones(self, now: SamplerState) -> list[Output]:
        """With the first commit of a segment, those of the draws of segments that are not kept any more."""
        if now.segment == self.state.segment:
            return []
        number, old = self.unit.number, []
        start, end = (each(self._draws_at.topic)[number] for each in (self._bus.starts, self._bus.ends))
        with self._bus.reader({self._draws_at: start}) as reader:
            while reader.position(self._draws_at) < end:
                for record in (each for part in reader.poll(0.5).slices for each in part.records):
                    place = wire_draws.place_of(record.key)
                    if place is None or place.segment <= now.segment - KEPT_SEGMENTS:
                        old += [record.key] if record.value is not None else []
        return [Output(self._draws_at.topic, None, key, number) for key in dict.fromkeys(old)]

    def verify(self) -> None:
        """Raises Unavailable if a commit was reported as done and is not in the log."""
        self._owner.verify(f"step {self.state.step} of segment {self.state.segment}")

    def close(self) -> None:
        self._forget()
        if self._reader is not None:
            self._reader.close()
        self._owner.close()
