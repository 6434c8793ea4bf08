"""The way of one chain through one segment: rows, set-up, new events, then blocks of steps until it is done."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, NamedTuple

from streaminfer.bus.protocol import Bus
from streaminfer.models.model import Matrix, Vector
from streaminfer.runtime.reading.span_events import Removed
from streaminfer.runtime.sampling.new_events import NewEvents
from streaminfer.runtime.sampling.segment_work import SegmentWork
from streaminfer.runtime.service import Fatal
from streaminfer.sampling import flat
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import packing
from streaminfer.sampling.chains.chain import Chain, Diverged, Drawn
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.chains.published import Scored, Steps, published
from streaminfer.sampling.draws import Counters, Draws
from streaminfer.sampling.states import SamplerState
from streaminfer.sampling.units import Unit
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas

log = logging.getLogger(__name__)


class Shown(NamedTuple):
    """What a snapshot shows: the draws (n, D) of a segment that is complete."""

    segment: int
    draws: Matrix


class Course:
    """From the state that a unit has on the bus. `begun` says whether that is of this segment."""

    def __init__(
        self, spec: Spec, bus: Bus, target: Any, unit: Unit, state: SamplerState, work: SegmentWork, schemas: Schemas
    ) -> None:
        self._spec, self._bus, self._target, self._unit, self._schemas = spec, bus, target, unit, schemas
        self._state, self.work = state, work
        self.begun = state.segment == work.segment.number
        self._news: NewEvents | None = None
        self._prepared: Prepared | None = None
        self._chain: Chain | None = None
        self._drawn: list[Drawn] = []
        self._committed = (state.block, state.step) if self.begun else (0, 0)
        """Block and step of the last commit."""
        self._ended: str | None = None
        """The phase in which the segment has ended without a chain."""

    def cut(self, why: str) -> None:
        """Ends the segment without further draws: the master begins another one."""
        log.warning("segment %d is cut: %s", self.work.segment.number, why)
        self._ended = "cut"

    @property
    def dirty(self) -> bool:
        """Whether there is something that is not committed."""
        if self._chain is None:
            return self._ended is not None and not (self.begun and self._state.phase == self._ended)
        return not self.begun or (self._chain.block, self._chain.step) != self._committed

    @property
    def progress(self) -> str:
        """What its set-up is at; empty afterwards."""
        return "" if self._prepared is not None or self.finished else self.work.progress

    @property
    def finished(self) -> bool:
        """Whether the segment is at its end."""
        return self._ended is not None or (self._chain is not None and self._chain.done)

    def advance(self, shown: Shown | None) -> bool:
        """Does a part of what is left; False if there is nothing to do now. Raises Fatal."""
        if self.finished:
            return False
        try:
            if self._prepared is None:
                return self._prepare(shown)
            if self._chain is not None:
                self._chain, drawn = chains.advance(self._prepared, self._chain)
                self._drawn.append(drawn)
        except Removed as error:
            self.cut(str(error))
        except Diverged as error:
            raise Fatal(f"chain {self._unit.chain}: {error}") from error
        return True

    def _prepare(self, shown: Shown | None) -> bool:
        work = self.work
        if not work.read(0.0):
            return not work.rows.waits
        if self.begun and self._state.digest != work.about.digest:
            self.cut("the log no longer gives its events")
            return True
        if work.about.n_events:
            if self.begun:
                work.offer(self._state.setup)
            if not work.set_up():
                return True
        if self._has_news(shown):
            return True
        if work.about.n_events:
            self._prepared = work.prepared(self._unit)
            self._chain = self._started(self._prepared)
        else:
            log.warning("segment %d has no good event", work.segment.number)
            self._ended = "done"
        return True

    def _has_news(self, shown: Shown | None) -> bool:
        """Whether new events are still to be looked at. Chain 0 does that before its first commit of the segment."""
        if self._unit.chain != 0 or self.begun:
            return False
        work = self.work
        if self._news is None:
            draws = None
            if shown is not None and shown.segment == work.segment.number - 1 and len(shown.draws):
                draws = shown.draws
            skips = "window_events" in (self._spec.inference.forget or {})
            if work.about.n_dead_lettered == 0 and draws is None and not skips:
                return False
            before = self._state.frontier
            self._news = NewEvents(self._spec, self._bus, work.segment, before, draws, self._schemas)
        try:
            return not self._news.step(0.0)
        except Removed as error:  # the rows are here, so the chain goes on
            log.warning("segment %d: not all new events can be scored or judged: %s", work.segment.number, error)
            self._news.close()
            return False

    def _started(self, prepared: Prepared) -> Chain:
        """The chain where its state is, or at the start of the segment."""
        state = self._state
        if not self.begun:
            return chains.begin(prepared, self._last_position(prepared))
        kernel_state = chains.unpacked(prepared, state.values)
        return Chain(state.phase, state.step, state.block, state.n_drawn, kernel_state, state.counters)

    def _last_position(self, prepared: Prepared) -> Vector | None:
        """Where the chain was at the end of the segment before; None if it is a first one."""
        if not len(self._state.values):
            return None
        return chains.last_position(prepared, self._state.values, self._state.n_events)

    def reached(self) -> SamplerState:
        """The state as it is now; that of a chain which is cut after its first commit stays what it is."""
        work, chain, about = self.work, self._chain, self.work.rows.about
        if self.begun and self._ended is not None:
            return replace(self._state, phase=self._ended)
        now = replace(
            self._state,
            segment=work.segment.number,
            frontier=work.segment.spans,
            n_events=0 if about is None else about.n_events,
            n_dead_lettered=0 if about is None else about.n_dead_lettered,
            topic_id=work.topic_id,
        )
        if chain is None or work.setup is None:
            phase = self._ended or "setup"
            return replace(now, phase=phase, digest="", step=0, block=0, n_drawn=0, thin=1, counters=Counters())
        return replace(
            now,
            phase=chain.phase,
            step=chain.step,
            block=chain.block,
            n_drawn=chain.n_drawn,
            thin=work.setup.thin,
            digest=work.about.digest,
            counters=chain.counters,
            values=chains.packed(chain),
            setup=packing.flatten(work.setup),
        )

    def draws(self, now: SamplerState) -> tuple[Draws, int]:
        """The draws since the last commit, maybe none, which also say how far the chain is; and their first block."""
        block, step = self._committed
        setup, news = self.work.setup, None if self.begun else self._news
        steps = Steps() if setup is None else Steps(setup.size, setup.noise)
        scored = None if news is None else Scored(news.score, news.n_scored)
        width = flat.size(self._target.shapes)
        return published(now, self._unit, step, self._drawn, width, steps, scored), block

    def before_commit(self) -> None:
        """Nothing: dead letters of the segment were written before its first block."""

    def committed(self, now: SamplerState) -> None:
        """All of this is on the bus."""
        self._state, self.begun, self._drawn = now, True, []
        if self._chain is not None:
            self._committed = (self._chain.block, self._chain.step)

    def close(self) -> None:
        if self._news is not None:
            self._news.close()
