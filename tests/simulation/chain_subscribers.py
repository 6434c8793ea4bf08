"""Who reads draws and snapshots of a schedule as a user would, and holds them against chains that nobody disturbs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from streaminfer.bus.protocol import Partition, Record
from streaminfer.models.model import Matrix
from streaminfer.runtime import names
from streaminfer.runtime.following.follower import Follower
from streaminfer.sampling import flat
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.pooled.shown import Fixed
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.units import Spans, Unit
from streaminfer.tables.draws import sampled
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.sampled.draws import Assembler, RecordKey
from tests.simulation.subscribers import Wrong
from tests.simulation.undisturbed import Undisturbed

if TYPE_CHECKING:
    from tests.simulation.sampler_world import SamplerWorld
    from tests.simulation.world import World


class ChainSubscriber:
    """Looks after every commit: first at segments that are fixed, then at draws, then at what snapshots show."""

    def __init__(self, world: SamplerWorld) -> None:
        spec, settings = world.spec, world.spec.sampling
        assert settings is not None
        self._world, self._settings = world, settings
        self._follower = Follower(spec, world.bus)
        self.newest: Snapshot | None = None
        self._segments: list[Segment] = []
        self._undisturbed = Undisturbed(spec, settings, self._rows_of)
        topic, size = names.topic(spec, "draws"), flat.size(spec.target.shapes)
        self._reader = world.bus.reader({Partition(topic, unit): 0 for unit in range(settings.n_units)})
        units = [Unit.numbered(number, settings) for number in range(settings.n_units)]
        self._assemblers = [Assembler(spec.fingerprint, unit, size) for unit in units]
        self._reached = [(-1, 0, 0, "done")] * settings.n_units
        """Of each unit its segment, its step there, its draws there, and its phase."""

    def poll(self) -> None:
        snapshots = self._follower.poll(0.0)
        for snapshot in snapshots:
            self._check_version(snapshot)
            self._fix(snapshot)
        for part in self._reader.poll(0.0).slices:
            for record in part.records:
                self._read(part.partition.index, record)
        for snapshot in snapshots:
            self._check_shown(snapshot)

    def _rows_of(self, segment: Segment) -> Matrix:
        return rows_of(self._world, segment.spans)

    def frontier(self) -> object:
        return self._reached

    def final(self) -> Snapshot:
        """The newest snapshot, which shows the last segment; and the topic has two segments at most."""
        assert self.newest is not None
        shown = sampled(self.newest).shown
        if shown.segment != self._segments[-1].number:
            raise Wrong(f"segment {shown.segment} is shown in the end, not {self._segments[-1].number}")
        if any(phase != "done" for _, _, _, phase in self._reached):
            raise Wrong(f"not all chains are done: {self._reached}")
        return self.newest

    def _check_version(self, snapshot: Snapshot) -> None:
        before = 0 if self.newest is None else self.newest.version
        if snapshot.version != before + 1:
            raise Wrong(f"version went from {before} to {snapshot.version}")
        self.newest = snapshot

    def _fix(self, snapshot: Snapshot) -> None:
        for each in sampled(snapshot).shown.segments:
            if each.number == len(self._segments) - 1:
                if each.spans != self._segments[-1].spans:
                    raise Wrong(f"segment {each.number} became {each.spans}")
                continue
            if each.number != len(self._segments):
                raise Wrong(f"segment {each.number} after {len(self._segments)} others")
            self._check_fixed(snapshot, each)
            self._segments.append(Segment(each.number, each.spans))
            self._undisturbed.add(self._segments[-1])

    def _check_fixed(self, snapshot: Snapshot, fixed: Fixed) -> None:
        """A segment has events that are there, and comes after all draws of the one before, which are shown."""
        ends = self._world.bus.ends(self._world.data)
        if any(span.end > ends[span.partition] or span.start for span in fixed.spans):
            raise Wrong(f"segment {fixed.number} is {fixed.spans}, and the log ends at {ends}")
        shown = sampled(snapshot).shown
        if fixed.number and (shown.segment, shown.complete) != (fixed.number - 1, True):
            raise Wrong(f"segment {fixed.number} is fixed and {shown.segment} shown (complete: {shown.complete})")
        if any(reached[0] != fixed.number - 1 or reached[3] != "done" for reached in self._reached):
            raise Wrong(f"segment {fixed.number} is fixed with chains at {self._reached}")

    def _read(self, unit: int, record: Record) -> None:
        if record.value is None:
            self._check_removed(unit, record.key)
            return
        received = self._assemblers[unit].add(record.key, record.value)
        if received is None:
            raise Wrong(f"unit {unit}: half a block at {record.offset}")
        self._check_draws(unit, received.place, received.draws)

    def _check_removed(self, unit: int, key: bytes | None) -> None:
        segment = int((key or b"").split(b"/")[1])
        if segment > self._reached[unit][0] - 1:
            raise Wrong(f"unit {unit}: {key!r} is removed, and the chain was in segment {self._reached[unit][0]}")

    def _check_draws(self, unit: int, place: RecordKey, draws: Draws) -> None:
        segment, step, n_drawn, phase = self._reached[unit]
        if draws.segment != segment:
            if draws.segment != segment + 1 or phase != "done":
                raise Wrong(f"unit {unit}: segment {draws.segment} after {phase} of {segment}")
            if draws.segment >= len(self._segments):
                raise Wrong(f"unit {unit}: draws of segment {draws.segment}, which is not fixed")
            step = n_drawn = 0
        elif phase == "done":
            raise Wrong(f"doubled: unit {unit} was done with segment {segment}")
        if draws.begin != step:
            raise Wrong(f"lost or doubled: unit {unit} goes on at step {draws.begin}, it was at {step}")
        through = self._undisturbed.of(unit, draws.segment)
        chain = through.after.get(draws.end)
        if chain is None or chain.phase != draws.phase or chain.counters != draws.counters:
            raise Wrong(f"unit {unit} at step {draws.end}: {draws.phase}, {draws.counters} and not {chain}")
        if place.block != through.after[draws.begin].block:
            raise Wrong(f"unit {unit}: step {draws.begin} is block {place.block}")
        which = slice(n_drawn, chain.n_drawn)
        pairs = [
            (draws.values, through.values[which]),
            (draws.weights, through.weights[which]),
            (draws.log_density, through.log_density[which]),
        ]
        if not all(np.array_equal(found, wanted) for found, wanted in pairs):
            raise Wrong(f"other draws: unit {unit}, segment {draws.segment}, steps {draws.begin} to {draws.end}")
        told = (draws.n_events, draws.frontier)
        if told != (self._undisturbed.n_events[draws.segment], self._segments[draws.segment].spans):
            raise Wrong(f"of other events: unit {unit}, segment {draws.segment}: {told}")
        self._reached[unit] = (draws.segment, draws.end, chain.n_drawn, draws.phase)

    def _check_shown(self, snapshot: Snapshot) -> None:
        found = sampled(snapshot)
        shown = found.shown
        if not shown.complete:
            return
        for unit, (segment, _, _, phase) in enumerate(self._reached):
            if (segment, phase) != (shown.segment, "done") and segment <= shown.segment:
                raise Wrong(f"segment {shown.segment} is complete, and unit {unit} at {self._reached[unit]}")
        wanted = self._undisturbed.pooled(shown.segment)
        same = np.array_equal(snapshot.payload.statistics, wanted.statistics.vector)
        if not (same and np.array_equal(found.draws, wanted.retained) and shown.n_draws == wanted.n_draws):
            raise Wrong(f"pooled otherwise: version {snapshot.version}")
        ends = {span.partition: span.end for span in self._segments[shown.segment].spans}
        if snapshot.frontier.positions != ends or snapshot.n_events != self._undisturbed.n_events[shown.segment]:
            raise Wrong(f"version {snapshot.version} is of {dict(snapshot.frontier.positions)}, not {ends}")


def rows_of(world: World, spans: Spans) -> Matrix:
    """The target's rows of the good events of some spans, by partition and then by position."""
    fields, found = [field.name for field in world.spec.fields], []
    for span in spans:
        log = world.broker.log(Partition(world.data, span.partition))
        found += [_numbers(each, fields) for each in log.records if span.start <= each.offset < span.end]
    good = [numbers for numbers in found if numbers is not None]
    return np.asarray(world.spec.target.rows(np.array(good, dtype=np.float64).reshape(-1, len(fields))))


def _numbers(record: Record, fields: Sequence[str]) -> list[float] | None:
    """None of a bad event."""
    values = json.loads(record.value or b"{}")
    return None if isinstance(values.get("x"), str) else [float(values[name]) for name in fields]
