"""The sampler: owns units, each a chain, and moves them on through the segments that the master fixes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from streaminfer.bus.protocol import Bus, BusError, Partition, Poll, Position
from streaminfer.runtime import names, topic_identity
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.logs import told_assigned
from streaminfer.runtime.running import alive
from streaminfer.runtime.sampling import scratch
from streaminfer.runtime.sampling.answering import Answering, can_be_asked
from streaminfer.runtime.sampling.course import Shown
from streaminfer.runtime.sampling.segment_work import SegmentWork
from streaminfer.runtime.sampling.unit import OwnedUnit
from streaminfer.runtime.telemetry import SamplerMetrics
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.units import Unit
from streaminfer.spec import Spec
from streaminfer.tables import draws
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED, Schemas

log = logging.getLogger(__name__)

SLICE_S: Final = 0.2
"""Seconds of work between two polls: membership is kept, and a stop is noticed."""
COMMIT_S: Final = 0.5
"""Seconds between two commits of a unit."""
CHECK_S: Final = 2.0
TELL_S: Final = 1.0
"""Seconds between notes on how far a set-up is."""
ANSWERING: Final = 0.25
"""The part of its time that a process spends on answers while chains have work: all of them fall behind by no more."""


class Sampler:
    """One sampler process's service. Units of one subposterior share the rows and the set-up of a segment."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        clock: Callable[[], float],
        metrics: SamplerMetrics,
        instance: str | None = None,
        schemas: Schemas = DECLARED,
    ) -> None:
        if spec.sampling is None:
            raise ValueError(f"{spec.name} has no sampler: its method is {spec.inference.method}")
        self._spec, self._settings, self._bus, self._clock, self._metrics = spec, spec.sampling, bus, clock, metrics
        self._schemas, self._target = schemas, spec.target
        self._follower = Follower(spec, bus, 0, schemas)
        self._member = bus.member(names.sampler_group(spec), [names.topic(spec, "sampler-state")], instance)
        arguments = (spec, spec.sampling, bus, clock, metrics, schemas)
        self._answering = Answering(*arguments) if can_be_asked(spec.sampling, spec.target) else None
        self._units: dict[Partition, OwnedUnit] = {}
        self._restoring: dict[Partition, OwnedUnit] = {}
        self._owned: set[Partition] = set()
        self._work: dict[int, SegmentWork] = {}
        """By subposterior, that of its newest segment."""
        self._committed_at: dict[Partition, float] = {}
        self._checked_at = self._told_at = clock()
        self._polled = self._busy = False
        scratch.remove_old()

    @property
    def ready(self) -> bool:
        return self._polled and self._owned == set(self._units) and self._follower.snapshot is not None

    def step(self, timeout: float) -> None:
        """Follow the segments, keep membership, and work for a slice of time; commit what is due."""
        self._follower.poll(0.0)
        self._reassign(self._member.poll(0.0 if self._busy or self._restoring else timeout))
        for partition in sorted(self._owned - set(self._units)):
            self._take_over(partition)
        self._busy = self._work_on()
        self._busy = self._answer() or self._busy
        self._commit_due()
        self._tell_progress()
        self._check()

    def reset(self) -> None:
        """After an error of a commit nobody knows what the bus has: forget, fence again, restore."""
        self._metrics.errors.inc()
        for unit in (*self._units.values(), *self._restoring.values()):
            unit.close()
        self._units.clear()
        self._restoring.clear()

    def close(self) -> None:
        """Commits whole blocks, then leaves the group."""
        try:
            for unit in self._units.values():
                if unit.dirty:
                    unit.commit(self._member)
        except BusError as error:
            log.warning("the last draws were not committed, they will be drawn again: %s", error)
        for unit in (*self._units.values(), *self._restoring.values()):
            unit.close()
        for work in self._work.values():
            work.close()
        if self._answering is not None:
            self._answering.close()
        self._member.close()
        self._follower.close()

    def _reassign(self, polled: Poll) -> None:
        self._polled = True
        for partition in polled.revoked:
            self._owned.discard(partition)
            unit = self._units.pop(partition, None) or self._restoring.pop(partition, None)
            if unit is not None:
                unit.close()
                if self._answering is not None and unit.unit.chain == 0:
                    self._answering.leave(unit.unit.subposterior)
        # The topics may have more partitions: once there were more chains.
        self._owned.update(each for each in polled.assigned if each.index < self._settings.n_units)
        if polled.assigned or polled.revoked:
            told_assigned(log, self._owned)
            self._metrics.chains.set(len(self._owned))

    def _take_over(self, partition: Partition) -> None:
        """Fence and restore, a part at a time."""
        unit = self._restoring.get(partition)
        if unit is None:
            unit = self._restoring[partition] = self._open_unit(partition.index)
        if unit.restored():
            self._units[partition] = self._restoring.pop(partition)
            self._committed_at[partition] = self._clock()

    def _open_unit(self, number: int) -> OwnedUnit:
        return OwnedUnit(self._spec, self._settings, self._target, self._bus, number, self._schemas)

    def _work_on(self) -> bool:
        """Whether any unit has more to do; they work in turn until the slice of time is over."""
        active = [unit for unit in self._units.values() if self._begin(unit)]
        self._give_up(active)
        until = self._clock() + SLICE_S
        shown = {unit: _shown_by(self._follower.snapshot, unit.unit.subposterior) for unit in active}
        while active and self._clock() < until:
            for unit in list(active):
                if not unit.advance(shown[unit]):
                    active.remove(unit)
                alive.tell()
        return bool(active)

    def _answer(self) -> bool:
        """Whether questions are still to be answered; for a part of the slice if chains have work, else for all."""
        newest = self._follower.snapshot
        if self._answering is None or newest is None:
            return False
        self._answering.follow()
        seconds = SLICE_S * (ANSWERING / (1 - ANSWERING) if self._busy else 1)
        return self._answering.work(self._units.values(), self._work, newest, self._member, seconds)

    def _give_up(self, active: list[OwnedUnit]) -> None:
        """Closes work that no chain here needs any more: other processes may wait for the rows that it reads."""
        owned = {each: Unit.numbered(each.index, self._settings).subposterior for each in self._owned}
        needed = {unit.unit.subposterior for unit in active}
        needed |= {subposterior for each, subposterior in owned.items() if each not in self._units}
        for subposterior, work in list(self._work.items()):
            whole = work.rows.about is not None and subposterior in owned.values()
            if subposterior not in needed and not whole:
                self._work.pop(subposterior).close()

    def _begin(self, unit: OwnedUnit) -> bool:
        """Gives a unit the work of the newest segment, if it is not through with it; or the stream."""
        if self._settings.source == "stream":
            unit.go_along(self._clock)
            return True
        newest, subposterior = self._follower.snapshot, unit.unit.subposterior
        segment = None if newest is None else self._segment_for(unit, newest)
        if newest is None or segment is None or not unit.wants(segment):
            return False
        work = self._work.get(subposterior)
        if work is None or work.segment != segment:
            if work is not None:
                work.close()
            topic_id = topic_identity.check(self._spec, self._bus, [newest])
            arguments = (self._spec, self._settings, self._bus, self._target, unit.unit, segment, topic_id)
            work = self._work[subposterior] = SegmentWork(*arguments, self._schemas)
            log.info("segment %d: %s positions", segment.number, f"{segment.size:,}")
        unit.begin(work)
        return True

    def _segment_for(self, unit: OwnedUnit, newest: Snapshot) -> Segment | None:
        """The newest that is fixed: nothing of a segment is drawn before its manifest is on the bus."""
        return draws.segment_of(newest, unit.unit.subposterior)

    def _commit_due(self) -> None:
        now = self._clock()
        for partition, unit in self._units.items():
            if unit.dirty and (unit.finished or now - self._committed_at[partition] >= COMMIT_S):
                before = unit.state
                unit.commit(self._member)
                self._committed_at[partition] = now
                self._metrics.tell(before, unit.state)

    def _tell_progress(self) -> None:
        """Notes beside the group's positions, for whoever waits. The next commit of a unit takes its note away."""
        now = self._clock()
        if now - self._told_at < TELL_S:
            return
        self._told_at = now
        notes = {each: Position(unit.state.block, unit.progress) for each, unit in self._units.items() if unit.progress}
        try:
            if notes:
                self._member.commit(notes)
        except BusError as error:
            log.info("progress was not told: %s", error)

    def _check(self) -> None:
        now = self._clock()
        if now - self._checked_at >= CHECK_S:
            self._checked_at = now
            for unit in self._units.values():
                unit.verify()


def _shown_by(snapshot: Snapshot | None, subposterior: int) -> Shown | None:
    """The draws of a complete posterior, if a snapshot shows them, and the segment of a subposterior that it is of."""
    found = None if snapshot is None else draws.sampled(snapshot)
    if found is None or not found.shown.complete:
        return None
    segments = [part.segment for part in found.shown.subposteriors if part.subposterior == subposterior]
    return Shown(segments[0] if segments else found.shown.segment, found.draws)
