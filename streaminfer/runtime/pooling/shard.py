"""A sampled posterior in its master's hands: fenced, restored, made of the draws that have come, committed.

Restoring is reading again: the newest snapshot says which segments are fixed, and the draws of them are on their topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from streaminfer.bus.protocol import Bus, Member, Partition, Position
from streaminfer.runtime import names, topic_identity
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.dead_letters.store import letter_output
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.owning import obstacles
from streaminfer.runtime.owning.manifest import ManifestWriter
from streaminfer.runtime.owning.obstacles import InTheWay
from streaminfer.runtime.owning.owner import Owner
from streaminfer.runtime.pooling import combined
from streaminfer.runtime.pooling.asking import Asker
from streaminfer.runtime.pooling.combining import Combining
from streaminfer.runtime.pooling.cut_off import CutOff, window_of_all
from streaminfer.runtime.pooling.draws_reader import DrawsReader
from streaminfer.runtime.pooling.joining import Joining, Pooling
from streaminfer.runtime.pooling.next_segment import Ends
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.sampling import flat
from streaminfer.sampling.pooled import showing
from streaminfer.sampling.pooled.gathering import Gathering
from streaminfer.sampling.pooled.showing import Showing
from streaminfer.sampling.pooled.shown import Fixed, Sampled
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.units import Span, is_of
from streaminfer.spec import Spec
from streaminfer.tables.draws import described, sampled, start, with_shown
from streaminfer.variational.held import Held
from streaminfer.wire.avro import Schemas

log = logging.getLogger(__name__)


class SampledShard:
    """The one shard of a sampled posterior. Nothing can be done before it is `restored`."""

    def __init__(
        self, spec: Spec, settings: Settings, bus: Bus, clock: Callable[[], float], metrics: MasterMetrics,
        schemas: Schemas, start_over: bool = False,
    ) -> None:  # fmt: skip
        """With `start_over` a posterior that has no whole snapshot left is made again from the draws that are there."""
        self._spec, self._settings, self._bus, self._metrics, self._schemas = spec, settings, bus, metrics, schemas
        self.partition = Partition(names.topic(spec, "posterior"), 0)
        self._owned = Partition(names.master_topic(spec), 0)
        """Whose owner is the master of this posterior."""
        self._owner = Owner(bus, names.master_writer(spec, 0), [self.partition])
        self._follower: Follower | None = Follower(spec, bus, 0, schemas)
        size = flat.size(spec.target.shapes)
        self._reader = DrawsReader(spec, settings, size, bus, schemas)
        self._gathered = Gathering(settings, size)
        self._joining = self._joins(clock, schemas)
        self._ends = Ends(spec, settings, bus, clock)
        self._cut_off: CutOff | None = None
        """Of the next segment of all subposteriors, while it is looked for."""
        self._manifests = ManifestWriter(spec, bus, 0, schemas)
        self.published = self.snapshot = start(spec)
        self._judged: dict[int, int] = {}
        """By unit, up to where its records were looked at before the restore."""
        self._start_over = start_over
        self.in_the_way: list[InTheWay] = []
        """What the restore stepped over; the next snapshot takes the place of it."""
        metrics.restores.inc()

    def _joins(self, clock: Callable[[], float], schemas: Schemas) -> Joining:
        """How draws become a posterior."""
        settings, spec = self._settings, self._spec
        if settings.combine is None:
            return Pooling(settings, self._gathered)
        asker = Asker(spec, settings, self._bus, schemas)
        arguments = (settings, settings.combine, spec.target, self._gathered, asker)
        return Combining(*arguments, lambda question: self._owner.publish(asker.outputs(question), {}, None), clock)

    def restored(self) -> bool:
        """Whether the newest snapshot and all draws are here; each call reads on."""
        if self._follower is not None:
            self._restore(self._follower)
            self._follower = None
        self.read(0.0)
        return self._reader.at_end()

    def _restore(self, follower: Follower) -> None:
        found = follower.catch_up()
        self._owner.check_newest(follower.position)
        if follower.unknown is not None:
            raise obstacles.of_unknown_schema(follower.unknown)
        self.in_the_way = follower.in_the_way
        if found is not None:
            self.published = self.snapshot = found
        elif self.in_the_way:
            if not self._start_over:
                raise obstacles.nothing_whole(self.in_the_way[-1])
            # every version had a record of its own, so none was above the end of the log
            self.published = self.snapshot = replace(self.published, version=follower.position)
        self._judged = {chain.unit: chain.read_to for chain in sampled(self.published).shown.chains}
        follower.close()

    def begin_at(self, segments: Mapping[int, Segment], now_ms: int) -> None:
        """The newest segments by subposterior that chains know of, for a snapshot that was lost."""
        fixed = tuple(Fixed(j, each.number, each.spans, now_ms) for j, each in sorted(segments.items()))
        self.snapshot = with_shown(self.snapshot, replace(sampled(self.snapshot).shown, segments=fixed))

    @property
    def dirty(self) -> bool:
        return self.snapshot is not self.published

    def read(self, timeout: float) -> None:
        """Takes in draws that have come; what is not one becomes a dead letter, once.

        What is dropped is counted once, too, though every owner reads it again.
        """
        n_dropped = self._joining.taken_dropped()
        for unit, draws, offset in self._reader.poll(timeout):
            if not self._gathered.take(unit, draws):
                n_dropped += offset >= self._judged.get(unit, 0)
        judged = self._judged
        new = [each for each in self._reader.bad if each[0].offset >= judged.get(each[0].partition.index, 0)]
        if new:
            store.publish(self._bus, [letter_output(self._spec, record, why) for record, why in new])
        if n_dropped or new:
            counts = self.snapshot.counts
            counts = replace(counts, n_dropped=counts.n_dropped + n_dropped + len(new))
            self.snapshot = replace(self.snapshot, counts=counts)

    def look(self, now_ms: int) -> bool:
        """Shows new draws and fixes the next segments; whether it must be committed at once.

        In this order: a segment that is complete is shown before, or with, the one that comes after it.
        """
        if self._settings.source == "stream":
            self._follow()
            return self._show()
        shown = self._show()
        due = self._ends.look() or self._cut_off is not None
        return (due and self._fix(now_ms)) or shown

    def _follow(self) -> None:
        """The segments of chains that go along the stream, as far as all of a subposterior have come."""
        topic_id = topic_identity.check(self._spec, self._bus, [self.snapshot])
        reached = {j: self._gathered.followed(j) for j in range(self._settings.subposteriors)}
        fixed = tuple(Fixed(j, each.number, each.spans, 0) for j, each in reached.items() if each is not None)
        shown = sampled(self.snapshot).shown
        if fixed == shown.segments:
            return
        positions = {span.partition: span.end for each in fixed for span in each.spans}
        counted = [self._gathered.n_followed(each.subposterior) for each in fixed]
        n_events, n_dead_lettered, n_lost = (sum(numbers) for numbers in zip(*counted, strict=True))
        counts = replace(self.snapshot.counts, n_events=n_events, n_dead_lettered=n_dead_lettered, n_lost=n_lost)
        frontier = replace(self.snapshot.frontier, positions=positions, topic_id=topic_id)
        followed = with_shown(self.snapshot, replace(shown, segments=fixed))
        self.snapshot = replace(followed, frontier=frontier, counts=counts)

    def _fix(self, now_ms: int) -> bool:
        """Whether a segment of a subposterior was due."""
        topic_id = topic_identity.check(self._spec, self._bus, [self.snapshot])
        held = {each.subposterior: each for each in sampled(self.snapshot).shown.segments}
        before, n_lost, any_cut = dict(held), 0, False
        for group, share in self._groups():
            last = [held[j] for j in group if j in held]
            old, cut = _joined(last), self._is_cut(last)
            new = self._next(old, last, share, cut, now_ms)
            if new is not None:
                held |= {each.subposterior: each for each in self._split(new, group, now_ms)}
                n_lost, any_cut = n_lost + self._ends.n_lost(old, cut), any_cut or cut
        if held == before:
            return False
        shown = sampled(self.snapshot).shown
        shown = replace(shown, segments=tuple(held[j] for j in sorted(held)), cut=any_cut)
        counts = replace(self.snapshot.counts, n_lost=self.snapshot.counts.n_lost + n_lost)
        frontier = replace(self.snapshot.frontier, topic_id=topic_id)
        self.snapshot = replace(with_shown(self.snapshot, shown), counts=counts, frontier=frontier)
        return True

    def _groups(self) -> list[tuple[Sequence[int], tuple[int, int]]]:
        """Subposteriors whose segments are fixed together, and their share of the partitions."""
        count = self._settings.subposteriors
        if window_of_all(self._spec) is not None:
            return [(range(count), (0, 1))]
        return [([j], (j, count)) for j in range(count)]

    def _is_cut(self, last: Sequence[Fixed]) -> bool:
        """Whether chains have lost events of a segment, or nobody knows any more which events it had."""
        unknown = window_of_all(self._spec) is not None and any(each.cut_off is None for each in last)
        return unknown or any(self._gathered.is_cut(each.subposterior, each.number) for each in last)

    def _next(
        self, old: Segment | None, last: Sequence[Fixed], share: tuple[int, int], cut: bool, now_ms: int
    ) -> Segment | None:
        """The next segment of a share, if it is due and its cut-off is known."""
        complete = all(self._gathered.is_complete(each.subposterior, each.number) for each in last)
        age = max((now_ms - each.fixed_at for each in last), default=0) / 1000
        new = self._ends.after(old, share, complete, cut, max(0.0, age))
        if new is None or window_of_all(self._spec) is None:
            return new
        if self._joining.busy and not cut:
            return None  # a question is about the cut-off that is fixed
        if self._cut_off is None:
            self._cut_off = CutOff(self._spec, self._bus, new, self._schemas)
        found = self._cut_off.step()
        if found is None and not self._cut_off.removed:
            return None
        made, self._cut_off = self._cut_off, None
        made.close()
        return None if found is None else made.segment._replace(cut_off=found)

    def _split(self, new: Segment, group: Sequence[int], now_ms: int) -> Iterator[Fixed]:
        """What each subposterior of a group has of a segment."""
        for j in group:
            spans = tuple(each for each in new.spans if is_of(each.partition, (j, self._settings.subposteriors)))
            size = sum(span.end - span.start for span in spans)
            log.info("segment %d of subposterior %d: %s positions", new.number, j, f"{size:,}")
            yield Fixed(j, new.number, spans, now_ms, new.cut_off)

    def _show(self) -> bool:
        """Whether there is more to show of newest segments."""
        before = sampled(self.snapshot).shown
        found = self._joining.look(before, self.published.version + 1)
        if found is None:
            return False
        made = found.showing
        shown = replace(made.shown, segments=before.segments, cut=before.cut)
        payload = Held(made.statistics, sampled=Sampled(made.draws, shown))
        self.snapshot = replace(self.snapshot, payload=payload)
        if self._settings.source != "stream":  # along a stream frontier and counts move by themselves
            self._count(made, found.spans)
        return True

    def _count(self, made: Showing, spans: Sequence[Span]) -> None:
        counts = replace(
            self.snapshot.counts, n_events=made.n_events, n_dead_lettered=made.n_dead_lettered, score=made.score
        )
        frontier = replace(
            self.snapshot.frontier,
            positions={span.partition: span.end for span in spans},
            starts={span.partition: span.start for span in spans},
        )
        self.snapshot = replace(self.snapshot, counts=counts, frontier=frontier)

    def commit(self, member: Member | None, now_ms: int) -> None:
        """Publishes the snapshot, and the position of the member's group if there is one, in one transaction."""
        self.verify()  # versions rise by one: none is left out because a broker has lost the one before
        shown = sampled(self.snapshot).shown
        shown = showing.with_progress(shown, self._gathered, self._reader.positions())
        snapshot = with_shown(self.snapshot, shown)
        snapshot = replace(snapshot, version=self.published.version + 1, created_at=now_ms)
        outputs = self._manifests.outputs(snapshot, described(self._spec, snapshot))
        if self._settings.combine is not None:
            outputs = [*combined.outputs(self._spec, self.published, snapshot, self._bus, self._schemas), *outputs]
        positions = {} if member is None else {self._owned: Position(snapshot.version)}
        self._owner.commit(outputs, positions, member)
        self.published = self.snapshot = snapshot
        self._metrics.tell(0, snapshot, snapshot.n_effective, scored=shown.n_scored > 0)

    def verify(self) -> None:
        """Raises Unavailable if a snapshot was reported as committed and is not in the log."""
        self._owner.verify(f"version {self.published.version}")

    def close(self) -> None:
        if self._follower is not None:
            self._follower.close()
        if self._cut_off is not None:
            self._cut_off.close()
        self._joining.close()
        self._reader.close()
        self._owner.close()


def _joined(last: Sequence[Fixed]) -> Segment | None:
    """The segment that subposteriors have together, of which each has the same number; None before the first."""
    if not last:
        return None
    return Segment(max(each.number for each in last), tuple(sorted(span for each in last for span in each.spans)))
