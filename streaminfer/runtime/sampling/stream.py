"""The way of one chain along the stream: a step for each minibatch as it arrives, and no data is held.

A segment is a number of draws here. The next one goes on where it ends, without another warm-up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from streaminfer.bus.protocol import Bus, OutOfRange, Output, Partition, Reader
from streaminfer.models.targets.passing import PassingEvents
from streaminfer.models.targets.reading import reading_of
from streaminfer.runtime import names, topic_identity
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.logs import event
from streaminfer.runtime.reading import bad_events
from streaminfer.runtime.reading.tape import Minibatch, Tape
from streaminfer.runtime.sampling.course import Shown
from streaminfer.runtime.service import Fatal
from streaminfer.sampling import flat
from streaminfer.sampling.chains import chain as chains
from streaminfer.sampling.chains import packing, setting_up
from streaminfer.sampling.chains.chain import Chain, Diverged, Drawn
from streaminfer.sampling.chains.prepared import Prepared
from streaminfer.sampling.chains.published import Steps, published
from streaminfer.sampling.draws import Counters, Draws
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.states import NO_SEGMENT, SamplerState, waiting
from streaminfer.sampling.units import Span, Unit
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas
from streaminfer.wire.events.formats import format_of

log = logging.getLogger(__name__)

AHEAD: Final = 8
"""Minibatches of a partition that are read ahead."""
LOOK_S: Final = 1.0
"""Seconds between looks for new partitions and for the marks of `--until-idle`."""


def following(state: SamplerState) -> SamplerState:
    """The start of the next segment: the chain goes on where it is, without another warm-up."""
    return replace(
        state, segment=state.segment + 1, phase="draws", step=0, block=0, n_drawn=0, counters=Counters(),
        setup=np.empty(0),
    )  # fmt: skip


def anew(settings: Settings, state: SamplerState, last: Draws) -> SamplerState:
    """The start of a segment for a chain of which only draws are left: it warms up again, after the same events."""
    return replace(
        waiting(state.fingerprint, state.unit),
        segment=last.segment + 1,
        phase="warmup",
        frontier=last.frontier,
        n_events=last.n_events,
        n_dead_lettered=last.n_dead_lettered,
        n_lost=last.n_lost,
        setup=packing.flatten(setting_up.of_stream(settings, True)),
    )


class StreamCourse:
    """From the state that a unit has on the bus."""

    def __init__(
        self, spec: Spec, settings: Settings, bus: Bus, clock: Callable[[], float], unit: Unit, state: SamplerState,
        schemas: Schemas,
    ) -> None:  # fmt: skip
        self._spec, self._settings, self._bus, self._clock, self._unit = spec, settings, bus, clock, unit
        self._target, self._format = spec.target, format_of(spec, schemas)
        self._topic = names.data_topic(spec)
        if state.phase == "done":  # its owner has ended between two segments
            state = following(state)
        self._state = state
        self._starts = {span.partition: span.start for span in state.frontier}
        self._tapes = {span.partition: self._tape(span.partition, span.end) for span in state.frontier}
        self._reader: Reader | None = None
        self._looked_at = -LOOK_S
        self._marks: dict[int, int] = {}
        self._counts = (state.n_events, state.n_dead_lettered, state.n_lost)
        self._letters: list[Output] = []
        self._segment = max(state.segment, 0)
        anew = packing.flatten(setting_up.of_stream(settings, True))
        self._warms_up = self._segment == 0 or np.array_equal(state.setup, anew)
        """Whether the segment begins with a warm-up: the first one, or one of a chain that has begun anew."""
        self._chain: Chain | None = None
        self._drawn: list[Drawn] = []
        self._committed = (state.block, state.step)
        self._moved = False

    def _tape(self, partition: int, position: int) -> Tape:
        return Tape(Partition(self._topic, partition), position)

    @property
    def dirty(self) -> bool:
        """Whether there is something that is not committed."""
        return self._moved

    @property
    def finished(self) -> bool:
        """Whether the segment has all its draws, which must be committed before the next begins."""
        return self._chain is not None and self._chain.done

    def advance(self, shown: Shown | None) -> bool:  # noqa: ARG002 (nothing of a segment before is needed)
        """Takes a minibatch, if one is there; False if there is nothing to do now. Raises Fatal."""
        if self.finished:
            return False
        if self._clock() - self._looked_at >= LOOK_S:
            self._look()
        batch = self._cut()
        if batch is None and not self._read():
            return False
        if batch is not None:
            self._take(batch)
        return True

    def _look(self) -> None:
        """Finds partitions that are new, and the marks of `--until-idle`."""
        self._looked_at = self._clock()
        starts = self._bus.starts(self._topic)
        for index in sorted(starts):
            if index not in self._tapes and self._unit.has(index):
                self._tapes[index] = self._tape(index, starts[index])
                self._starts[index] = starts[index]
                self._close_reader()
        kept = self._bus.committed(names.until_idle_group(self._spec))
        self._marks = {each.index: at.offset for each, at in kept.items() if each.topic == self._topic}

    def _read(self) -> bool:
        """Whether anything new was read."""
        if self._reader is None:
            if not self._tapes:
                return False
            self._reader = self._bus.reader({tape.partition: tape.end for tape in self._tapes.values()})
        minibatch = self._settings.minibatch or 1
        for tape in self._tapes.values():
            ahead = tape.end - tape.begin >= AHEAD * minibatch
            (self._reader.pause if ahead else self._reader.resume)(tape.partition)
        try:
            polled = self._reader.poll(0.0, AHEAD * minibatch)
        except OutOfRange as error:
            self._lose(self._reader, error)
            return True
        now = self._clock()
        for part in polled.slices:
            self._tapes[part.partition.index].extend(part, now)
        return bool(polled.slices)

    def _lose(self, reader: Reader, error: OutOfRange) -> None:
        """Steps over data that retention has removed."""
        if error.position > error.end:
            raise Fatal(f"{error}: the chain has seen events that the log no longer has. Use a new spec name.")
        n = error.start - error.position
        text = f"{error.partition}: retention removed {n} positions"
        event(log, "lost", text, logging.WARNING, partition=str(error.partition), positions=n)
        n_events, n_bad, n_lost = self._counts
        tape = self._tapes[error.partition.index]
        self._counts = (n_events, n_bad, n_lost + error.start - tape.begin)
        tape.skip(error.start)
        reader.seek(error.partition, error.start)
        self._moved = True

    def _cut(self) -> Minibatch | None:
        """The next minibatch: of the partition that has had the fewest of those that have one."""
        minibatch = self._settings.minibatch or 1

        def had(index: int) -> tuple[int, int]:
            return (self._tapes[index].begin - self._starts[index]) // minibatch, index

        for index in sorted(self._tapes, key=had):
            found = self._tapes[index].cut(minibatch, 0.0, 0.0, self._marks.get(index))
            if found is not None:
                return found
        return None

    def _take(self, batch: Minibatch) -> None:
        """One step by the good events of a minibatch; the bad ones get dead letters, which chain 0 writes."""
        self._moved = True
        judged = bad_events.judge(self._spec, self._format, batch.records)
        if self._unit.chain == 0:
            self._letters += judged.letters(self._spec)
        n_events, n_bad, n_lost = self._counts
        events = judged.taken.events
        self._counts = (n_events + events.n, n_bad + judged.n_bad, n_lost)
        if events.n:
            rows = np.ascontiguousarray(reading_of(self._target).rows(self._target, events))
            total = max(self._settings.population or 0, self._counts[0])
            self._step(PassingEvents(self._target, rows, 1 / self._unit.subposteriors, total))

    def _step(self, density: PassingEvents) -> None:
        key = Key(self._settings.seed, "steps", self._unit.number, self._segment)
        setup = setting_up.of_stream(self._settings, self._warms_up)
        prepared = Prepared(density, self._settings, key, setup)
        if self._chain is None:
            self._chain = self._started(prepared)
        try:
            self._chain, drawn = chains.advance(prepared, self._chain)
        except Diverged as error:
            raise Fatal(f"chain {self._unit.chain}: {error}") from error
        self._drawn.append(drawn)

    def _started(self, prepared: Prepared) -> Chain:
        state = self._state
        if state.segment == NO_SEGMENT or not len(state.values):
            return chains.begin(prepared, None)
        kernel_state = chains.unpacked(prepared, state.values)
        return Chain(state.phase, state.step, state.block, state.n_drawn, kernel_state, state.counters)

    def reached(self) -> SamplerState:
        """The state as it is now."""
        chain, (n_events, n_bad, n_lost) = self._chain, self._counts
        setup = setting_up.of_stream(self._settings, self._warms_up)
        spans = tuple(Span(i, self._starts[i], tape.begin) for i, tape in sorted(self._tapes.items()))
        now = replace(
            self._state,
            segment=self._segment,
            frontier=spans,
            n_events=n_events,
            n_dead_lettered=n_bad,
            n_lost=n_lost,
            thin=setup.thin,
            setup=packing.flatten(setup),
            topic_id=self._state.topic_id or self._bus.topic_id(self._topic),
        )
        if chain is None:
            return replace(now, phase="warmup" if now.phase == "waiting" else now.phase)
        return replace(
            now,
            phase=chain.phase,
            step=chain.step,
            block=chain.block,
            n_drawn=chain.n_drawn,
            counters=chain.counters,
            values=chains.packed(chain),
        )

    def draws(self, now: SamplerState) -> tuple[Draws, int]:
        """The draws since the last commit, maybe none; and their first block."""
        block, step = self._committed
        steps = Steps(setting_up.of_stream(self._settings, True).size)
        width = flat.size(self._target.shapes)
        return published(now, self._unit, step, self._drawn, width, steps), block

    def before_commit(self) -> None:
        """Dead letters are durable before the state that passes them; what was read is of the topic that it says."""
        topic_identity.check_ids(self._spec, self._bus, [self._state.topic_id])
        store.publish(self._bus, self._letters)
        self._letters = []

    def committed(self, now: SamplerState) -> None:
        """All of this is on the bus; a segment that is full is followed by the next."""
        self._state, self._drawn, self._moved = now, [], False
        self._committed = (now.block, now.step)
        if self._chain is not None and self._chain.done:
            self._state = following(now)
            self._segment, self._warms_up = self._state.segment, False
            self._chain = Chain("draws", 0, 0, 0, self._chain.state, Counters())
            self._committed = (0, 0)

    def close(self) -> None:
        self._close_reader()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
