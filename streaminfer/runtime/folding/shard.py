"""One shard of a posterior in its master's hands: fenced, restored from the log, folded, committed."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from streaminfer.bus.partitioner import partition_of
from streaminfer.bus.protocol import Bus, Member, Output, Partition, Position, Record
from streaminfer.runtime import names, topic_identity
from streaminfer.runtime.dead_letters.store import letter_output
from streaminfer.runtime.folding.parts import Parts
from streaminfer.runtime.folding.restoring import Restored, Restoring
from streaminfer.runtime.folding.statistics_store import Store
from streaminfer.runtime.following.rows import decode
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.lag import behind
from streaminfer.runtime.logs import event
from streaminfer.runtime.owning.manifest import ManifestWriter
from streaminfer.runtime.owning.obstacles import InTheWay
from streaminfer.runtime.owning.owner import Owner
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.running.patience import Teller
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.spec import Spec
from streaminfer.tables import table_of
from streaminfer.tables.kinds import kind_of
from streaminfer.tables.table import Described
from streaminfer.variational import epochs
from streaminfer.variational.forgetting.decay import unevenness
from streaminfer.variational.increment import Increment
from streaminfer.variational.methods import memoized, method_of
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot, dropped
from streaminfer.wire import increments, key_records
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.events.formats import max_events

log = logging.getLogger(__name__)

MOST_VERSIONS: Final = 10_000
FAR_BEHIND: Final = 10_000
"""Positions of a partition that are still to be learned from: then nobody sees the newest events anyway."""


class Shard:
    """A table as folded so far; `published` is what the bus has of it. Nothing can be done before it is `restored`."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        index: int,
        metrics: MasterMetrics,
        schemas: Schemas = DECLARED,
        start_over: bool = False,
    ) -> None:
        """With `start_over` a posterior that has no whole snapshot left starts from the prior."""
        self._spec, self._bus, self._metrics, self._schemas = spec, bus, metrics, schemas
        self.partition = Partition(names.topic(spec, "increments"), index)
        self._data = names.data_topic(spec)
        self._teller, self._manifests = Teller(log), ManifestWriter(spec, bus, index, schemas)
        self.table = table_of(spec, index)
        self.published = self.table.snapshot
        keeping = self.table.keeping
        self._store = None if keeping is None else Store(spec, bus, index, keeping, schemas)
        self._parts = Parts(self.table.layout, lambda label: partition_of(label, spec.shards) == index)
        self._letters: list[Output] = []
        self.in_the_way: list[InTheWay] = []
        """What the restore stepped over: then the next snapshot must come at once, in the place of it."""
        self._leftovers: list[Output] = []
        """Tombstones that the next snapshot is written with."""
        self._retry: dict[int, int] = {}
        self._n_events: dict[int, int] = {}
        """How many events the versions had that workers may start from, the newest MOST_VERSIONS."""
        self._ends: dict[int, int] = {}
        self._told_uneven = False
        self.committed_at = -math.inf
        """When it last published a snapshot, by its master's clock."""
        self.urgent = False
        """Whether workers wait for the next snapshot: a partition is new, or an increment was dropped."""
        self._owner = self.fence()
        try:
            self._restoring: Restoring | None = Restoring(
                spec, bus, self.table, self._store, self._owner, schemas, index, start_over
            )
        except BaseException:
            self._owner.close()
            raise
        self._metrics.restores.inc()

    def fence(self) -> Owner:
        """Shuts out every predecessor. First of all: what is restored after it can no longer change."""
        index = self.partition.index
        state = [Partition(topic, index) for topic in names.state_topics(self._spec)]
        return Owner(self._bus, names.master_writer(self._spec, index), state)

    @property
    def snapshot(self) -> Snapshot:
        return self.table.snapshot

    @snapshot.setter
    def snapshot(self, snapshot: Snapshot) -> None:
        self.table.snapshot = snapshot

    def restored(self) -> bool:
        """Whether all of the snapshot is here; each call reads on."""
        if self._restoring is None:
            return True
        found = self._restoring.step()
        if found is not None:
            self._go_on(found)
            self._restoring = None
        return found is not None

    def _go_on(self, found: Restored) -> None:
        self.published, self.snapshot = found.published, found.snapshot
        version, n_events = self.published.version, self.published.n_events
        text = f"restored {self.partition} at version {version} with {counted(n_events, 'event')}"
        event(log, "restored", text, partition=str(self.partition), version=version, events=n_events)
        self.in_the_way, self._leftovers = found.in_the_way, found.leftovers
        self._n_events = {self.published.version: self.published.n_events}

    def meet_partitions(self, now: float) -> None:
        """Gives every data partition seen for the first time its log start as frontier.

        If times matter, the time at which it is met is now, in seconds since 1970: a later first event cannot be right.

        The topic's id is read first: workers would find a start wrong that belongs to another topic than the id.
        """
        before, again = self.snapshot, method_of(self._spec.inference).passes
        topic_id = topic_identity.check(self._spec, self._bus, [before])
        self.snapshot = met = epochs.met(before, self._bus.starts(self._data), kept=again)
        frontier = met.frontier
        if self._spec.times_matter:
            new = {index: (now,) for index in frontier.positions if index not in before.frontier.positions}
            frontier = replace(frontier, reached={**frontier.reached, **new}) if new else frontier
        if not frontier.topic_id:
            frontier = replace(frontier, topic_id=topic_id)
        if frontier is not met.frontier:
            self.snapshot = replace(met, frontier=frontier)
        self.urgent = self.urgent or self.snapshot is not before

    def tell_behind(self) -> None:
        """How far it is behind the log."""
        self._metrics.behind(self.partition.index, behind(self.published.frontier, self._bus, self._data))

    @property
    def restless(self) -> bool:
        """Whether something is to be done once the data is at rest."""
        return self.table.restless

    def rest(self, ends: Mapping[int, int]) -> None:
        """Does it; it must be committed at once."""
        log.info("%s", self.table.rest(ends))

    def turn(self) -> bool:
        """Starts the next pass if this one is at its end; whether that was so. It must be committed at once."""
        turned = self.table.turn()
        if turned:
            log.info("pass %d of %d", self.snapshot.frontier.epoch + 1, self._spec.inference.n_epochs)
        return turned

    @property
    def dirty(self) -> bool:
        return self.snapshot is not self.published

    @property
    def full(self) -> bool:
        """Whether a snapshot must come at once, as it is large."""
        return self.table.full

    @property
    def far_behind(self) -> bool:
        """Whether the data is known to go on far beyond the frontier."""
        positions = self.snapshot.frontier.positions
        return any(end - positions.get(index, end) > FAR_BEHIND for index, end in self._ends.items())

    @property
    def unpublished_events(self) -> int:
        return self.snapshot.n_events - self.published.n_events

    def take(self, records: Sequence[Record]) -> None:
        """Folds records of the increments topic, or says in dead-letters why not."""
        found = []
        for record in records:
            try:
                increment = self._parts.add(increments.decode(value_of(record), self._schemas, max_events(self._spec)))
                if increment is not None and self._is_of_this_spec(increment):
                    self._check_in_log(increment)
                    found.append(increment)
            except WireError as error:
                self._bury(record, error)
        self._fold(found)

    def passed(self, position: int) -> None:
        """Everything before `position` of the increments topic is dealt with."""
        if position != self.snapshot.read_to:
            self.snapshot = replace(self.snapshot, read_to=position)

    def _is_of_this_spec(self, increment: Increment) -> bool:
        came = increment.provenance
        if (came.fingerprint, came.topic) == (self._spec.fingerprint, self._data):
            return True
        self._teller.tell(f"dropped an increment of a spec with fingerprint {came.fingerprint} by {came.writer}")
        self._metrics.outcome("other-spec")
        self.snapshot = dropped(self.snapshot)
        return False

    def _check_in_log(self, increment: Increment) -> None:
        """Raises BadValue if an increment claims events that the data topic does not have."""
        came, n_epochs = increment.provenance, self._spec.inference.n_epochs
        if came.epoch >= n_epochs:
            rule = "must be 0, there is one pass over the data" if n_epochs == 1 else f"must be below {n_epochs}"
            raise BadValue(f"epoch {rule} (got {came.epoch})")
        if came.end > self._ends.get(came.partition, 0):
            self._ends = self._bus.ends(self._data)
        end = self._ends.get(came.partition, 0)
        if came.end > end:
            raise BadValue(f"end must not be beyond the {end} of {self._data}-{came.partition} ({came.end})")

    def _fold(self, found: Sequence[Increment]) -> None:
        """All in one pass if that comes to the same, else one after the other."""
        outcomes = self.table.fold_all(found) if len(found) > 1 else None
        if outcomes is None:
            for increment in found:
                self._note(increment, self._fold_one(increment))
        else:
            for increment, outcome in zip(found, outcomes, strict=True):
                self._note(increment, outcome)
        self._tell_uneven()

    def _note(self, increment: Increment, outcome: Outcome) -> None:
        partition = increment.provenance.partition
        self._metrics.outcome(outcome.value)
        if outcome is Outcome.STALE_BASE:
            self._retry[partition] = self.published.version + 1
        elif outcome.moved:
            self._retry.pop(partition, None)
        self.urgent = self.urgent or not outcome.moved

    def _fold_one(self, increment: Increment) -> Outcome:
        came, before = increment.provenance, self.snapshot
        fresh_from = self._retry.get(came.partition, self.published.version)
        # A version before this master's time may be any: its worker computes again on one that is known.
        base_events = self._n_events.get(came.base_version, 0)
        try:
            outcome = self.table.fold(increment, fresh_from, base_events)
        except memoized.TooManyBatches as error:
            raise Fatal(f"{self._data}: {error}") from error
        self._tell_alarm(before)
        return outcome

    def _tell_alarm(self, before: Snapshot) -> None:
        found = self.snapshot.drift
        if found is None or found.n_alarms == (0 if before.drift is None else before.drift.n_alarms):
            return
        what = "only reported" if self._spec.drift is None or self._spec.drift.react is None else "forgetting faster"
        after = counted(found.alarm_at, "event")
        text = f"drift: alarm {found.n_alarms} after {after}: scores fell; {what}"
        event(log, "drift", text, logging.WARNING, alarms=found.n_alarms, events=found.alarm_at)

    def _tell_uneven(self) -> None:
        """Once, if both the data and what is folded of it are uneven: a partition may only be behind."""
        forget = self._spec.inference.forget
        found = None if self._told_uneven else unevenness(forget, self._ends)
        if found is not None and unevenness(forget, self.snapshot.frontier.positions) is not None:
            log.warning("%s: %s", self._data, found)
            self._told_uneven = True

    def _bury(self, record: Record, error: WireError) -> None:
        self._teller.tell(f"{record.partition} offset {record.offset}: {error}")
        self._metrics.outcome(error.reason)
        self._letters.append(letter_output(self._spec, record, f"{error.reason}: {error}"))
        self.urgent = True

    def commit(self, member: Member | None, now_ms: int) -> None:
        """Publishes snapshot, rows, what is kept, dead letters and the group's position in one transaction.

        Without a member, as in a repair, the group's position does not change.
        """
        table = self.table
        if self._store is not None or table.row_size:
            # Only what has changed is written: on top of a snapshot that was lost it would not be all.
            self.verify()
        table.settle(self.published, lambda: self._bus.ends(self._data))
        snapshot = replace(self.snapshot, version=self.published.version + 1, created_at=now_ms)
        kept, summary = [], snapshot
        if self._store is not None and table.keeping is not None:
            kept, summary = self._store.changes(self.published, snapshot), table.keeping.summary(snapshot)
        positions = {} if member is None else {self.partition: Position(snapshot.read_to)}
        manifest = self._manifests.outputs(summary, table.described(summary))
        written = [*self._letters, *self._leftovers, *kept, *self._rows(snapshot), *manifest]
        self._owner.commit(written, positions, member)
        self._letters, self._leftovers, self.in_the_way = [], [], []
        self.urgent = False
        self.published = self.snapshot = replace(snapshot, counts=replace(snapshot.counts, staleness=0))
        table.published()
        if table.keeping is not None:
            table.keeping.published()
        self._n_events[snapshot.version] = snapshot.n_events
        self._n_events.pop(snapshot.version - MOST_VERSIONS, None)
        kind = kind_of(self._spec)
        self._metrics.tell(
            self.partition.index, snapshot, table.n_effective, bool(kind.n_scored(snapshot)), kind.together
        )

    def described(self) -> tuple[Snapshot, Described]:
        """What the bus has, as its manifest says it: without what is kept beside it."""
        keeping = self.table.keeping
        summary = self.published if keeping is None else keeping.summary(self.published)
        return summary, self.table.described(summary)

    def _rows(self, snapshot: Snapshot) -> list[Output]:
        """Rows that are gone, and rows that have changed."""
        topic, index = names.topic(self._spec, "posterior"), self.partition.index
        gone = [Output(topic, None, key_records.record_key(*place), index) for place in sorted(self.table.rows.gone)]
        entries = list(self.table.rows.changed())
        rows = [key_records.encode(entry, snapshot.version, self._schemas) for entry in entries]
        with self._manifests.readable(snapshot):
            if rows:
                decode(self._spec, [entry.label for entry in entries], rows, self._schemas)
        self._metrics.dirty_keys.set(len(rows))
        return gone + [
            Output(topic, row, key_records.record_key(entry.label, entry.clock), index)
            for entry, row in zip(entries, rows, strict=True)
        ]

    def verify(self) -> None:
        """Raises Unavailable if a snapshot was reported as committed and is not in the log."""
        self._owner.verify(f"version {self.published.version}")

    def close(self) -> None:
        if self._restoring is not None:
            self._restoring.close()
        if self._store is not None:
            self._store.close()
        self._owner.close()
