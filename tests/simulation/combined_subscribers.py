"""Who reads draws and combined snapshots of a schedule as a user would, and makes every combination again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streaminfer.bus.protocol import Partition
from streaminfer.combining import rounds
from streaminfer.combining.answering import answer
from streaminfer.combining.questions import Question
from streaminfer.combining.rounds import Given, Made, Replies
from streaminfer.combining.windows import Window, window
from streaminfer.models.model import Matrix
from streaminfer.runtime import names
from streaminfer.runtime.following.follower import Follower
from streaminfer.sampling import flat
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.pooled.gathering import Gathering
from streaminfer.sampling.pooled.shown import Fixed, Part
from streaminfer.sampling.units import Spans, Unit
from streaminfer.tables.draws import sampled
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.sampled.draws import Assembler
from tests.simulation.chain_subscribers import rows_of
from tests.simulation.subscribers import Wrong

if TYPE_CHECKING:
    from tests.simulation.combiner_world import CombinerWorld


class CombinedSubscriber:
    """Looks after every commit: at draws, then at what snapshots fix and show."""

    def __init__(self, world: CombinerWorld) -> None:
        spec, settings = world.spec, world.spec.sampling
        assert settings is not None
        assert settings.combine is not None
        self._world, self._spec, self._settings, self._how = world, spec, settings, settings.combine
        self._follower = Follower(spec, world.bus)
        self.newest: Snapshot | None = None
        topic, self._size = names.topic(spec, "draws"), flat.size(spec.target.shapes)
        self._reader = world.bus.reader({Partition(topic, unit): 0 for unit in range(settings.n_units)})
        units = [Unit.numbered(number, settings) for number in range(settings.n_units)]
        self._assemblers = [Assembler(spec.fingerprint, unit, self._size) for unit in units]
        self._draws: dict[tuple[int, int], list[Draws]] = {}
        """By unit and segment."""
        self._fixed: dict[tuple[int, int], Spans] = {}
        """By subposterior and segment."""
        self.rounds: dict[int, bool] = {}
        """All that were shown, and whether all draws of their segments were there."""
        self.n_left_out = 0

    def poll(self) -> None:
        snapshots = self._follower.poll(0.0)
        for part in self._reader.poll(0.0).slices:
            for record in part.records:
                if record.value is not None:
                    self._take(part.partition.index, record.key, record.value)
        for snapshot in snapshots:
            self._check_version(snapshot)
            self._fix(snapshot)
            self._check_shown(snapshot)

    def frontier(self) -> object:
        return None if self.newest is None else (dict(self.newest.frontier.positions), sampled(self.newest).shown)

    def final(self) -> Snapshot:
        """The newest snapshot, which is a combination of all there is."""
        assert self.newest is not None
        shown = sampled(self.newest).shown
        if shown.combined is None or any(part.left_out for part in shown.subposteriors):
            raise Wrong(f"in the end is shown {shown}")
        return self.newest

    def _take(self, unit: int, key: bytes | None, value: bytes) -> None:
        received = self._assemblers[unit].add(key, value)
        if received is None:
            raise Wrong(f"unit {unit}: half a block")
        held = self._draws.setdefault((unit, received.draws.segment), [])
        reached = held[-1].end if held else 0
        if received.draws.begin != reached:
            raise Wrong(f"lost or doubled: unit {unit} goes on at step {received.draws.begin}, it was at {reached}")
        held.append(received.draws)

    def _check_version(self, snapshot: Snapshot) -> None:
        before = 0 if self.newest is None else self.newest.version
        if snapshot.version != before + 1:
            raise Wrong(f"version went from {before} to {snapshot.version}")
        self.newest = snapshot

    def _fix(self, snapshot: Snapshot) -> None:
        for each in sampled(snapshot).shown.segments:
            if self._fixed.setdefault((each.subposterior, each.number), each.spans) != each.spans:
                raise Wrong(f"segment {each.number} of subposterior {each.subposterior} became {each.spans}")

    def _check_shown(self, snapshot: Snapshot) -> None:
        found = sampled(snapshot)
        shown, combined = found.shown, found.shown.combined
        if combined is None:
            if shown.n_draws or snapshot.n_events:
                raise Wrong(f"version {snapshot.version} is of {snapshot.n_events} events, and nothing is combined")
            return
        if combined.round not in self.rounds:
            self.rounds[combined.round] = shown.complete
            self.n_left_out += any(part.left_out for part in shown.subposteriors)
            self._check_key(combined.round)
        made = self._made(shown.subposteriors, combined.round)
        same = np.array_equal(snapshot.payload.statistics, made.statistics.vector)
        if not (same and np.array_equal(found.draws, made.draws) and combined == made.combination):
            raise Wrong(f"combined otherwise: version {snapshot.version}, round {combined.round}, {shown}")
        used = [part for part in shown.subposteriors if not part.left_out]
        spans = [span for part in used for span in self._fixed[part.subposterior, part.segment]]
        if snapshot.frontier.positions != {span.partition: span.end for span in spans}:
            raise Wrong(f"version {snapshot.version} is of {dict(snapshot.frontier.positions)}, not {spans}")
        if snapshot.n_events != sum(len(self._rows(part.subposterior, part.segment)) for part in used):
            raise Wrong(f"version {snapshot.version} has {snapshot.n_events} events")

    def _check_key(self, number: int) -> None:
        """The draws of a round are on their topic as soon as a snapshot has them."""
        log = self._world.broker.log(Partition(names.topic(self._spec, "combined"), 0))
        if not any(record.key == f"0/{number}/0".encode() and record.value for record in log.records):
            raise Wrong(f"the draws of round {number} are not on their topic")

    def _made(self, parts: tuple[Part, ...], number: int) -> Made:
        """The round again, from the log."""
        gathered = Gathering(self._settings, self._size)
        found = [self._window(gathered, part) for part in parts]
        target, count = self._spec.target, self._settings.subposteriors

        def ask(question: Question) -> Replies:
            return {
                share.subposterior: answer(
                    target, self._rows(share.subposterior, share.segment), question, share.subposterior, count
                ).values
                for share in question.shares
            }

        return rounds.made(Given(found, target, self._how, count, self._settings.seed, number), ask)

    def _window(self, gathered: Gathering, part: Part) -> Window:
        """Of the draws of one segment, up to the steps that are told."""
        if part.why or part.left_out:
            return Window(part, (), False, None)
        j = part.subposterior
        for unit, end in zip(gathered.units(j), part.steps, strict=True):
            for draws in self._draws.get((unit, part.segment), []):
                if draws.end <= end:
                    gathered.take(unit, draws)
        fixed = Fixed(j, part.segment, self._fixed[j, part.segment], 0)
        made = window(gathered, fixed, self._spec.target, self._how.window)
        if made.shown != part or made.part is None:
            raise Wrong(f"told {part}, and the draws give {made.shown}")
        return made

    def _rows(self, subposterior: int, segment: int) -> Matrix:
        return rows_of(self._world, self._fixed[subposterior, segment])
