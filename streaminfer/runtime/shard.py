"""One shard of a posterior in its master's hands: fenced, restored from the log, folded, committed."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.bus.protocol import Bus, Member, Output, Partition, Position, Record, Unavailable, Writer
from streaminfer.models.model import DomainError
from streaminfer.runtime import incarnation, manifests, names, stepping
from streaminfer.runtime.counting import counted
from streaminfer.runtime.follower import Follower
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.letters import letter_output
from streaminfer.runtime.pane_store import PaneStore, kept_of
from streaminfer.runtime.parts import Parts
from streaminfer.runtime.patience import Teller
from streaminfer.runtime.pooling import model_of
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.stepping import InTheWay
from streaminfer.runtime.telemetry import MasterMetrics
from streaminfer.spec import Spec
from streaminfer.variational import blend, epochs, fold, memoized
from streaminfer.variational.fold import Outcome
from streaminfer.variational.forgetting import unevenness
from streaminfer.variational.increment import Increment
from streaminfer.variational.reaction import rule_of
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import increments, snapshots
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.formats import max_events

log = logging.getLogger(__name__)

MOST_VERSIONS: Final = 10_000


class Shard:
    """The posterior as folded so far; `published` is what the bus has of it."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        index: int,
        metrics: MasterMetrics,
        schemas: Schemas = DECLARED,
        start_over: bool = False,
    ) -> None:
        """With `start_over` a posterior of which no whole snapshot is left starts from the prior."""
        self._spec, self._bus, self._metrics, self._schemas = spec, bus, metrics, schemas
        self.partition = Partition(names.topic(spec, "increments"), index)
        self._forgetting = rule_of(spec)
        self._start_over, self._teller = start_over, Teller(log)
        self.in_the_way: list[InTheWay] = []
        """What the restore stepped over: then the next snapshot must come at once, in the place of it."""
        self._leftovers: list[Output] = []
        """Tombstones that the next snapshot is written with."""
        kept = kept_of(spec)
        self._panes = None if kept is None else PaneStore(spec, bus, index, kept, schemas)
        self._writer = self.fence()
        try:
            self.published = self.restore()
        except BaseException:
            self._writer.close()
            raise
        self.snapshot = replace(self.published) if self.in_the_way else self.published
        self._parts = self._new_parts()
        self._letters: list[Output] = []
        self._retry: dict[int, int] = {}
        self._n_events = {self.published.version: self.published.n_events}
        """How many events the versions had that workers may start from, the newest MOST_VERSIONS."""
        self._last_offset = -1
        self._data = names.data_topic(spec)
        self._ends: dict[int, int] = {}
        self._told_uneven = False
        self.committed_at = -math.inf
        """When it last published a snapshot, by its master's clock."""
        self.urgent = False
        """Whether workers wait for the next snapshot: a partition is new, or an increment was dropped."""

    def _new_parts(self) -> Parts:
        return Parts(self._spec.model.size, self._spec.inference.by_time, self._spec.inference.windowed)

    def fence(self) -> Writer:
        """Shuts out every predecessor. First of all: what is restored after it can no longer change."""
        return self._bus.writer(names.master_writer(self._spec, self.partition.index))

    def restore(self) -> Snapshot:
        """The newest snapshot on the bus with its panes, or the prior."""
        for topic in names.state_topics(self._spec):
            if self._bus.hidden(topic)[self.partition.index]:
                # Our predecessor's last commit may be there: from an older snapshot its versions would come twice.
                raise Unavailable(f"{topic}: the newest snapshot may be behind an unfinished transaction of another")
        found = self._read_back()
        self._metrics.restores.inc()
        return found or self._start()

    def _start(self) -> Snapshot:
        """Of no event."""
        return fold.start(self._spec.model, self._spec.fingerprint)

    def _read_back(self) -> Snapshot | None:
        """The newest whole snapshot on the bus; raises Fatal where there is none to go on from."""
        follower = Follower(self._spec, self._bus, self.partition.index, self._schemas)
        try:
            found, position = follower.catch_up(), follower.position
        finally:
            follower.close()
        if follower.unreadable is not None:
            if follower.of_unknown_schema:
                raise stepping.of_unknown_schema(follower.in_the_way[-1])
            self._step_over(follower.in_the_way, found)
            if found is None:
                return self._started_over(follower.n_in_the_way)
        if self._panes is not None:
            found = self._with_panes(self._panes, found or self._start(), position)
        # What is in the way may have had a version each: the next one is above them all.
        return found and replace(found, version=found.version + follower.n_in_the_way)

    def _step_over(self, found: list[InTheWay], whole: Snapshot | None) -> None:
        """Says what is in the way of the newest whole snapshot; raises Fatal without one.

        To go on from an older one is safe: its frontier is the truth, so all events after it are read again.
        """
        self.in_the_way = found
        if whole is None and not self._start_over:
            raise stepping.nothing_whole(found[-1])
        for each in found:
            log.warning("stepped over %s", each)
        if whole is not None:
            log.warning("restored version %d, the newest whole snapshot: later events are read again", whole.version)

    def _started_over(self, version: int) -> Snapshot:
        """The prior, above the versions that were there; whatever panes there are go."""
        if self._panes is not None:
            self._leftovers = stepping.removals(self._bus, self._panes.partition)
        return replace(self._start(), version=version)

    def _with_panes(self, store: PaneStore, found: Snapshot, position: int) -> Snapshot:
        """A snapshot that was the newest up to a position, with its panes."""
        try:
            return store.restored(found)
        except Fatal as error:
            self._check_newest(position, error)
            raise

    def _check_newest(self, position: int, error: Fatal) -> None:
        """Raises Unavailable where the posterior goes on after what was read, so that an error may be of that."""
        topic, index = names.topic(self._spec, "posterior"), self.partition.index
        if self._bus.hidden(topic)[index] or self._bus.ends(topic)[index] != position:
            raise Unavailable(f"{topic}: a newer master has written while this one was reading") from error

    def restored(self) -> bool:
        """Whether all of the snapshot is here; where it is large, each call reads on."""
        return True

    def meet_partitions(self, now: float) -> None:
        """Gives every data partition seen for the first time its log start as frontier.

        Where times matter it is met now, in seconds since 1970: a first event that is later cannot be right.

        The topic's id is read first: with the start of another topic than that, workers would find it wrong.
        """
        before, again = self.snapshot, self._spec.inference.method != "svb"
        topic_id = incarnation.check(self._spec, self._bus, [before])
        self.snapshot = epochs.met(before, self._bus.starts(self._data), kept=again)
        if self._spec.times_matter:
            new = {index: (now,) for index in self.snapshot.frontier if index not in before.frontier}
            self.snapshot = replace(self.snapshot, reached={**self.snapshot.reached, **new}) if new else self.snapshot
        if not before.topic_id:
            self.snapshot = replace(self.snapshot, topic_id=topic_id)
        self.urgent = self.urgent or self.snapshot is not before

    @property
    def restless(self) -> bool:
        """Whether something is to be done once the data is at rest."""
        return self._spec.inference.n_epochs > 1 and not self.snapshot.ends

    def rest(self, ends: Mapping[int, int]) -> None:
        """Makes the data that is there now, up to its ends, that of every pass. It must be committed at once."""
        self.snapshot = epochs.fixed(self.snapshot, ends)
        log.info("every pass ends at %s", dict(self.snapshot.ends))

    def turn(self) -> bool:
        """Starts the next pass where this one is at its end; whether that was so. It must be committed at once."""
        before = self.snapshot
        self.snapshot = epochs.turned(before, self._spec.inference.n_epochs)
        if self.snapshot is not before:
            log.info("pass %d of %d", self.snapshot.epoch + 1, self._spec.inference.n_epochs)
        return self.snapshot is not before

    @property
    def dirty(self) -> bool:
        return self.snapshot is not self.published

    @property
    def full(self) -> bool:
        """Whether a snapshot must come at once, as it is large."""
        return False

    @property
    def unpublished_events(self) -> int:
        return self.snapshot.n_events - self.published.n_events

    def take(self, record: Record) -> None:
        """Folds one record of the increments topic, or says in dead-letters why not."""
        try:
            increment = self._parts.add(increments.decode(value_of(record), self._schemas, max_events(self._spec)))
            if increment is not None and self._is_of_this_spec(increment):
                self._check_in_log(increment)
                self._fold(increment)
        except WireError as error:
            self._bury(record, error)

    def passed(self, position: int) -> None:
        """Everything before `position` of the increments topic is dealt with."""
        if position != self.snapshot.read_to:
            self.snapshot = replace(self.snapshot, read_to=position)

    def _is_of_this_spec(self, increment: Increment) -> bool:
        if (increment.fingerprint, increment.topic) == (self._spec.fingerprint, self._data):
            return True
        fingerprint, writer = increment.fingerprint, increment.writer
        self._teller.tell(f"dropped an increment of a spec with fingerprint {fingerprint} by {writer}")
        self._metrics.outcome("other-spec")
        self.snapshot = replace(self.snapshot, n_dropped=self.snapshot.n_dropped + 1)
        return False

    def _check_in_log(self, increment: Increment) -> None:
        """Raises BadValue where an increment claims events that the data topic does not have."""
        n_epochs = self._spec.inference.n_epochs
        if increment.epoch >= n_epochs:
            rule = "must be 0, there is one pass over the data" if n_epochs == 1 else f"must be below {n_epochs}"
            raise BadValue(f"epoch {rule} (got {increment.epoch})")
        if increment.end > self._ends.get(increment.partition, 0):
            self._ends = self._bus.ends(self._data)
        end = self._ends.get(increment.partition, 0)
        if increment.end > end:
            raise BadValue(f"end must not be beyond the {end} of {self._data}-{increment.partition} ({increment.end})")

    def _fold(self, increment: Increment) -> None:
        fresh_from = self._retry.get(increment.partition, self.published.version)
        before, spec = self.snapshot, self._spec
        # A version before this master's time may be any: its worker computes again on one that is known.
        base_events = self._n_events.get(increment.base_version, 0)
        try:
            self.snapshot, outcome = fold.add(
                spec.model, before, increment, fresh_from, self._forgetting, spec.drift, spec.inference, base_events
            )
        except memoized.TooManyBatches as error:
            raise Fatal(f"{self._data}: {error}") from error
        self._tell_alarm(before)
        self._tell_uneven()
        self._metrics.outcome(outcome.value)
        if outcome is Outcome.STALE_BASE:
            self._retry[increment.partition] = self.published.version + 1
        elif outcome.moved:
            self._retry.pop(increment.partition, None)
        self.urgent = self.urgent or not outcome.moved

    def _tell_alarm(self, before: Snapshot) -> None:
        found = self.snapshot.drift
        if found is None or found.n_alarms == (0 if before.drift is None else before.drift.n_alarms):
            return
        what = "only reported" if self._spec.drift is None or self._spec.drift.react is None else "forgetting faster"
        after = counted(found.alarm_at, "event")
        log.warning("drift: alarm %d after %s: scores fell; %s", found.n_alarms, after, what)

    def _tell_uneven(self) -> None:
        """Once, where both the data and what is folded of it are uneven: a partition may only be behind."""
        forget = self._spec.inference.forget
        found = None if self._told_uneven else unevenness(forget, self._ends)
        if found is not None and unevenness(forget, self.snapshot.frontier) is not None:
            log.warning("%s: %s", self._data, found)
            self._told_uneven = True

    def _bury(self, record: Record, error: WireError) -> None:
        self._teller.tell(f"{record.partition} offset {record.offset}: {error}")
        self._metrics.outcome(error.reason)
        self._letters.append(letter_output(self._spec, record, f"{error.reason}: {error}"))
        self.urgent = True

    def commit(self, member: Member | None, now_ms: int) -> None:
        """Publishes the snapshot, its panes, the dead letters and the group's position in one transaction.

        Without a member, as who repairs is none, the position stays where it is.
        """
        snapshot = replace(self.snapshot, version=self.published.version + 1, created_at=now_ms)
        panes = [] if self._panes is None else self._changed_panes(self._panes, snapshot)
        outputs = self._outputs(snapshot if self._panes is None else self._panes.summary(snapshot))
        positions = {} if member is None else {self.partition: Position(snapshot.read_to)}
        written = [*self._letters, *self._leftovers, *panes, *outputs]
        self._last_offset = self._writer.commit(written, positions, member)[-1]
        self._letters, self._leftovers, self.in_the_way = [], [], []
        self.urgent = False
        self.published = self.snapshot = replace(snapshot, staleness=0)
        self._n_events[snapshot.version] = snapshot.n_events
        self._n_events.pop(snapshot.version - MOST_VERSIONS, None)
        self._metrics.tell(
            self.partition.index, snapshot, self._n_effective(snapshot), self._scored, self._spec.words is not None
        )

    def _n_effective(self, snapshot: Snapshot) -> float:
        """The sum of the weights of a snapshot's events."""
        return snapshot.n_effective

    @property
    def _scored(self) -> bool:
        """Whether snapshots have a score: who folds keys has no events, and who has the events no posterior of keys."""
        return self._spec.key is None

    def _changed_panes(self, store: PaneStore, snapshot: Snapshot) -> list[Output]:
        self.verify()  # only changed panes are written: on top of a snapshot that was lost they would not be all
        return store.changes(self.published, snapshot)

    def _outputs(self, snapshot: Snapshot) -> list[Output]:
        """The records of a snapshot, its manifest last."""
        topic = names.topic(self._spec, "posterior")
        natural, about = self._described(snapshot)
        records = snapshots.encode(snapshot, natural, about, self._bus.max_record_bytes, self._schemas)
        with self._readable(snapshot):
            manifests.check_readable(self._spec, [data for _, data in records], self._schemas)
        outputs = [Output(topic, data, key, self.partition.index) for key, data in records]
        return [*outputs[:-1], replace(outputs[-1], headers=manifests.headers(self._spec))]

    @contextmanager
    def _readable(self, snapshot: Snapshot) -> Iterator[None]:
        """Around the reading of what is to be written: what no master could restore is never committed."""
        try:
            yield
        except (WireError, DomainError) as error:
            raise Fatal(
                f"{names.topic(self._spec, 'posterior')}: version {snapshot.version} is not written: no master could "
                f"restore it: {error}. The posterior on the bus is version {self.published.version}: a fault of "
                "streaminfer or of your own model; please report it with the spec."
            ) from error

    def verify(self) -> None:
        """Raises Unavailable where a snapshot reported as committed is not in the log: failing brokers do that."""
        end = self._bus.ends(names.topic(self._spec, "posterior"))[self.partition.index]
        if end <= self._last_offset:
            raise Unavailable(f"version {self.published.version} was reported as committed but is not in the log")

    def _described(self, snapshot: Snapshot) -> tuple[NDArray[np.float64], snapshots.About]:
        model, method = model_of(self._spec, snapshot), self._spec.inference.method
        posterior = model.posterior(blend.published(model, self._spec.inference, snapshot))
        return posterior.natural, snapshots.About(
            self._spec.name, self._spec.kind, posterior.family, method, model.exactness
        )

    def close(self) -> None:
        self._metrics.left(self.partition.index)
        self._writer.close()
