"""A sampled posterior in its master's hands: fenced, restored, made of the draws that have come, committed.

Restoring is reading again: the newest snapshot says which segments are fixed, and the draws of them are on their topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from streaminfer.bus.protocol import Bus, Member, Partition, Position
from streaminfer.runtime import incarnation, names
from streaminfer.runtime.following.follower import Follower
from streaminfer.runtime.owning import obstacles
from streaminfer.runtime.owning.manifest import ManifestWriter
from streaminfer.runtime.owning.owner import Owner
from streaminfer.runtime.pooling.draws_reader import DrawsReader
from streaminfer.runtime.pooling.next_segment import Ends
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.sampling import flat, showing
from streaminfer.sampling.gathering import Gathering
from streaminfer.sampling.segments import Segment
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.showing import Watcher
from streaminfer.sampling.shown import Fixed, Sampled
from streaminfer.spec import Spec
from streaminfer.tables.draws import described, sampled, start, with_shown
from streaminfer.variational.held import Held
from streaminfer.wire.avro import Schemas

log = logging.getLogger(__name__)


class SampledShard:
    """The one shard of a sampled posterior. Nothing can be done before it is `restored`."""

    def __init__(
        self, spec: Spec, settings: Settings, bus: Bus, clock: Callable[[], float], metrics: MasterMetrics,
        schemas: Schemas,
    ) -> None:  # fmt: skip
        self._spec, self._settings, self._bus, self._metrics = spec, settings, bus, metrics
        self.partition = Partition(names.topic(spec, "posterior"), 0)
        self._owner = Owner(bus, names.master_writer(spec, 0), [self.partition])
        self._follower: Follower | None = Follower(spec, bus, 0, schemas)
        size = flat.size(spec.target.shapes)
        self._reader = DrawsReader(spec, settings, size, bus, schemas)
        self._gathered = Gathering(settings, size)
        self._watcher = Watcher(settings, self._gathered)
        self._ends = Ends(spec, settings, bus, clock)
        self._manifests = ManifestWriter(spec, bus, 0, schemas)
        self.published = self.snapshot = start(spec)
        metrics.restores.inc()

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
        if found is not None:
            self.published = self.snapshot = found
        elif follower.in_the_way:
            raise obstacles.nothing_whole(follower.in_the_way[-1])
        follower.close()

    @property
    def dirty(self) -> bool:
        return self.snapshot is not self.published

    def read(self, timeout: float) -> None:
        """Takes in draws that have come."""
        for unit, draws in self._reader.poll(timeout):
            if not self._gathered.take(unit, draws):
                counts = replace(self.snapshot.counts, n_dropped=self.snapshot.counts.n_dropped + 1)
                self.snapshot = replace(self.snapshot, counts=counts)

    def look(self, now_ms: int) -> bool:
        """Shows new draws and fixes the next segments; whether it must be committed at once.

        In this order: a segment that is complete is shown before, or with, the one that comes after it.
        """
        shown = self._show()
        return (self._ends.look() and self._fix(now_ms)) or shown

    def _fix(self, now_ms: int) -> bool:
        """Whether a segment of a subposterior was due."""
        topic_id = incarnation.check(self._spec, self._bus, [self.snapshot])
        held = {each.subposterior: each for each in sampled(self.snapshot).shown.segments}
        before, n_lost = dict(held), 0
        for j in range(self._settings.subposteriors):
            last = held.get(j)
            old = None if last is None else Segment(last.number, last.spans)
            complete = old is not None and self._gathered.is_complete(j, old.number)
            cut = old is not None and self._gathered.is_cut(j, old.number)
            age = 0.0 if last is None else max(0, now_ms - last.fixed_at) / 1000
            new = self._ends.after(old, j, complete, cut, age)
            if new is not None:
                held[j] = Fixed(j, new.number, new.spans, now_ms)
                n_lost += self._ends.n_lost(old, new)
                log.info("segment %d of subposterior %d: %s positions", new.number, j, f"{new.size:,}")
        if held == before:
            return False
        shown = sampled(self.snapshot).shown
        shown = replace(shown, segments=tuple(held[j] for j in sorted(held)), cut=n_lost > 0)
        counts = replace(self.snapshot.counts, n_lost=self.snapshot.counts.n_lost + n_lost)
        frontier = replace(self.snapshot.frontier, topic_id=topic_id)
        self.snapshot = replace(with_shown(self.snapshot, shown), counts=counts, frontier=frontier)
        return True

    def _show(self) -> bool:
        """Whether there is more to show of the newest segment; of several subposteriors each is shown by itself."""
        before = sampled(self.snapshot).shown
        if self._settings.subposteriors > 1 or not before.segments:
            return False
        segment = before.segments[0]
        found = self._watcher.look(segment.number)
        if found is None:
            return False
        shown = replace(found.shown, segments=before.segments, cut=before.cut)
        counts = replace(
            self.snapshot.counts, n_events=found.n_events, n_dead_lettered=found.n_dead_lettered, score=found.score
        )
        frontier = replace(
            self.snapshot.frontier,
            positions={span.partition: span.end for span in segment.spans},
            starts={span.partition: span.start for span in segment.spans},
        )
        payload = Held(found.statistics, sampled=Sampled(found.draws, shown))
        self.snapshot = replace(self.snapshot, payload=payload, counts=counts, frontier=frontier)
        return True

    def commit(self, member: Member, now_ms: int) -> None:
        """Publishes the snapshot and the group's position in one transaction."""
        shown = sampled(self.snapshot).shown
        shown = showing.with_progress(shown, self._gathered, self._reader.positions())
        snapshot = with_shown(self.snapshot, shown)
        snapshot = replace(snapshot, version=self.published.version + 1, created_at=now_ms)
        outputs = self._manifests.outputs(snapshot, described(self._spec, snapshot))
        self._owner.commit(outputs, {self.partition: Position(snapshot.version)}, member)
        self.published = self.snapshot = snapshot
        self._metrics.tell(0, snapshot, snapshot.n_effective, scored=shown.n_scored > 0)

    def verify(self) -> None:
        """Raises Unavailable if a snapshot was reported as committed and is not in the log."""
        self._owner.verify(f"version {self.published.version}")

    def close(self) -> None:
        self._metrics.left(0)
        if self._follower is not None:
            self._follower.close()
        self._reader.close()
        self._owner.close()
