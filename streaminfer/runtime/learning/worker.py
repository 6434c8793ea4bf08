"""The worker: minibatches of data partitions in, increments out, by the spec's method of inference.

At least once is enough here: the master folds only what continues the frontier. A worker starts every partition at
the frontier of the newest snapshot, never at its group's offsets, and goes back there when an increment of its was
dropped.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence

from streaminfer.bus.protocol import Bus, BusError, Fenced, OutOfRange, Output, Partition, Poll, Position
from streaminfer.runtime import names, topic_identity
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.following.shards import Shards, rows_of
from streaminfer.runtime.learning.learner import Learned, Learner
from streaminfer.runtime.learning.visited_batches import VisitedBatches
from streaminfer.runtime.logs import event, told_assigned
from streaminfer.runtime.plurals import counted
from streaminfer.runtime.reading.passes import Passes
from streaminfer.runtime.reading.tape import Minibatch, Tape
from streaminfer.runtime.running import alive
from streaminfer.runtime.running.patience import Teller
from streaminfer.runtime.service import Fatal
from streaminfer.runtime.telemetry import WorkerMetrics
from streaminfer.spec import Spec
from streaminfer.tables import table_of
from streaminfer.tables.kinds import folding_of, kind_of
from streaminfer.variational import base, methods
from streaminfer.variational.frontier import Frontier
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import increments
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue

log = logging.getLogger(__name__)

STEP_MINIBATCHES = 64
"""Minibatches read in one step: a step stays short, so leases, seek rules and a stop come in time."""
STEP_RECORDS = 10_000
CHECK_INTERVAL = 1.0
"""Seconds between checks that what was acknowledged is in the log, and between commits of group offsets."""
SNAPSHOT_WAIT = 0.02
"""Seconds between looks for a snapshot without which there is nothing to do."""
MARK_INTERVAL = 0.1
"""Seconds between looks for the ends that `up --until-idle` waits for, if nothing lingers."""


class Worker:
    """One worker process's service. `identity` is different in every process that ever runs."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        clock: Callable[[], float],
        identity: str,
        metrics: WorkerMetrics,
        instance: str | None = None,
        schemas: Schemas = DECLARED,
    ) -> None:
        self._schemas = schemas
        self._spec, self._bus, self._clock, self._metrics = spec, bus, clock, metrics
        self._topic = names.data_topic(spec)
        self._kind = kind_of(spec)
        self._tape_bytes = folding_of(spec).tape_bytes(spec)
        self._merged_bytes = self.merged_bytes(spec)
        self._merged_positions = folding_of(spec).merged_positions(spec)
        self._layout = table_of(spec).layout
        self._increments = names.topic(spec, "increments")
        self._shards = Shards(spec, bus, schemas, rows_of(spec, schemas))
        self._passes = Passes(spec, self._shards)
        keeps = methods.visits_cavity(spec.model, spec.inference) and spec.inference.n_epochs > 1
        self._batches = VisitedBatches(spec, bus, schemas) if keeps else None
        self._learner = Learner(spec, self._shards, self._passes, identity, schemas, self._batches)
        self._member = bus.member(names.worker_group(spec), [self._topic], instance)
        self._tapes: dict[Partition, Tape] = {}
        self._waiting: set[Partition] = set()
        self._marks: dict[Partition, Position] = {}
        self._marks_at = self._checked_at = clock()
        self._polled = False
        self._teller = Teller(log)
        self._held_back = False
        """Whether the last cut ended for want of a newer base, so that more may be there to be cut."""

    @staticmethod
    def merged_bytes(spec: Spec) -> int:
        """Bytes of records of which one increment is made, however many minibatches they are; 0: one of each."""
        return folding_of(spec).merged_bytes if spec.merges_minibatches else 0

    @property
    def ready(self) -> bool:
        return self._polled and self._shards.snapshot is not None

    def step(self, timeout: float) -> None:
        """Follow the posterior, read, cut, and publish: dead letters first, then the increments that pass them."""
        self._follow()
        self._read(timeout)
        batches = self._cut()
        if batches:
            self._publish([each for batch in batches for each in self._learn(batch)])
        if self._tapes and self._clock() - self._checked_at >= CHECK_INTERVAL:
            self._checked_at = self._clock()
            self._check_acknowledged()
            self._show_lag()

    def reset(self) -> None:
        """What was published is unknown after an error: every partition starts again at the frontier."""
        self._metrics.errors.inc()
        self._waiting.update(self._tapes)
        self._tapes.clear()
        for partition in self._waiting:
            self._member.pause(partition)

    def close(self) -> None:
        self._member.close()
        self._shards.close()
        if self._batches is not None:
            self._batches.close()

    def _follow(self) -> None:
        """Takes in new snapshots and applies the seek rules to every partition."""
        self._shards.poll(0.0)
        snapshot = self._shards.snapshot
        if snapshot is None:
            return
        for tape in self._tapes.values():
            if tape.epoch != snapshot.frontier.epoch:
                self._start(tape.partition, snapshot.frontier.positions[tape.partition.index])
            else:
                self._align(tape, self._shards.snapshots)
        for partition in list(self._waiting):
            frontier = snapshot.frontier.positions.get(partition.index)
            if frontier is not None:
                self._waiting.discard(partition)
                self._start(partition, frontier)
        self._metrics.base_version.set(snapshot.version)
        self._metrics.ahead.set(sum(len(tape.ahead) for tape in self._tapes.values()))

    def _align(self, tape: Tape, shards: Sequence[Snapshot]) -> None:
        """The lowest frontier of all shards counts; those further on drop what they have."""
        index = tape.partition.index
        frontier = min(shard.frontier.positions[index] for shard in shards)
        tape.reached(frontier)
        if frontier > tape.begin:
            self._metrics.seeks_forward.inc()
            self._start(tape.partition, frontier)
        elif any(
            shard.frontier.positions[index] < tape.begin and shard.read_to > tape.acknowledged.get(i, -1)
            for i, shard in enumerate(shards)
        ):
            # A master has read past all we sent and still stands before it: something of ours was dropped.
            self._metrics.seeks_back.inc()
            self._start(tape.partition, frontier)

    def _start(self, partition: Partition, position: int) -> None:
        snapshot = self._shards.snapshot
        frontier = Frontier() if snapshot is None else snapshot.frontier
        self._tapes[partition] = Tape(partition, position, self._tape_bytes, frontier.epoch)
        self._tapes[partition].time_reached = frontier.reached.get(partition.index, ())
        self._member.seek(partition, position)
        self._pause(partition, self._passes.at_end(self._tapes[partition]))

    def _read(self, timeout: float) -> None:
        try:
            records = min(STEP_MINIBATCHES * self._spec.inference.minibatch, STEP_RECORDS)
            polled = self._member.poll(min(timeout, self._patience()), records)
        except OutOfRange as error:
            self._lose(error)
            return
        self._polled = True
        self._reassign(polled)
        now = self._clock()
        for part in polled.slices:
            if part.partition in self._tapes:
                self._tapes[part.partition].extend(part, now)

    def _patience(self) -> float:
        """Seconds until something is due that a poll for data does not bring: a cut, or a snapshot."""
        if self._waiting or self._room() <= 0:
            return SNAPSHOT_WAIT
        if self._held_back:
            return 0.0
        now, linger = self._clock(), self._spec.inference.linger_ms / 1000
        return min((tape.due_in(linger, now) for tape in self._tapes.values()), default=math.inf)

    def _reassign(self, polled: Poll) -> None:
        for partition in polled.revoked:
            self._tapes.pop(partition, None)
            self._waiting.discard(partition)
        self._waiting.update(polled.assigned)
        if polled.assigned or polled.revoked:
            told_assigned(log, (*self._tapes, *self._waiting))
            self._metrics.partitions.set(len(self._tapes) + len(self._waiting))

    def _lose(self, error: OutOfRange) -> None:
        """Data that retention removed unread becomes an explicit loss; beyond the end there is nothing to do."""
        if error.position > error.end:
            raise Fatal(
                f"{error}: the posterior has seen events that the log no longer has. Was the topic made anew? "
                "Use a new spec name for a new log."
            )
        if self._kind.together and self._shards.snapshot is None:
            return  # what was read before the gap needs rows that have not come yet
        tape = self._tapes[error.partition]
        outputs: list[Learned] = []
        if self._passes.keeps_batches(tape):
            gaps = [(tape.begin, self._passes.next_batch(tape, error.start))]
        else:
            while (rest := tape.flush(self._clock(), self._passes.stop(tape))) is not None:
                outputs += self._learn(rest)
            gaps = self._passes.gaps(tape, error.start)
        for begin, end in gaps:
            text = f"{error.partition}: retention removed {end - begin} positions before they were read"
            event(log, "lost", text, logging.WARNING, partition=str(error.partition), positions=end - begin)
            gap = Minibatch(error.partition, begin, end, [], tape.epoch)
            self._metrics.lost.inc((end - begin) * self._passes.is_first(gap))
            increment = self._learner.lost(gap, end - begin)
            outputs += [Learned(shard, [], increment) for shard in range(self._spec.shards)]
        tape.skip(gaps[-1][1])
        self._member.seek(error.partition, tape.begin)
        self._publish(outputs)

    def _cut(self) -> list[Minibatch]:
        inference, now = self._spec.inference, self._clock()
        linger = inference.linger_ms / 1000
        marks = self._until_idle_marks(now) if linger == 0 and self._passes.in_last_epoch() else {}
        batches: list[Minibatch] = []
        room = self._room()
        for tape in self._tapes.values():
            mark = marks.get(tape.partition)
            while len(batches) < room and not self._passes.at_end(tape, tape.begin):
                stop = self._passes.stop(tape, mark)
                batch = tape.cut(inference.minibatch, linger, now, stop, self._merged_bytes, self._merged_positions)
                if batch is None:
                    break
                self._passes.check_whole(batch, stop)
                batches.append(batch)
        self._held_back = len(batches) >= room
        self._hold(self._held_back)
        return batches

    def _learn(self, batch: Minibatch) -> list[Learned]:
        """In the order of the log: whether a time is too far ahead depends on those before it."""
        tape = self._tapes[batch.partition]
        made = self._learner.learn(batch, tape.time_reached)
        alive.tell()
        tape.time_reached = made[-1].increment.provenance.reached
        n_ahead = sum(each.n_ahead for each in made)
        if n_ahead:
            self._metrics.ahead_of_time.inc(n_ahead)
            self._teller.tell(
                f"{batch.partition} [{batch.begin}, {batch.end}): {counted(n_ahead, 'event')} further ahead of "
                "the partition's time than one event may move it: each counts as of that time (docs/promises.md)"
            )
        return made

    def _room(self) -> float:
        """How many minibatches may start from the present base: the bound on staleness, for models that need a base."""
        if not self._spec.model.needs_base:
            return float("inf")
        inference, snapshot = self._spec.inference, self._shards.snapshot
        if snapshot is None and self._kind.together:
            return 0  # rows of words are missing, and come
        if self._batches is not None and snapshot is not None and not self._batches.ready(snapshot.frontier.epoch):
            return 0  # what the passes before have left is not all known yet
        ahead = sum(len(tape.ahead) for tape in self._tapes.values())
        n_events = 0 if snapshot is None else snapshot.n_events
        # With more the master would find the base too old.
        known = base.side_by_side(self._spec.model, n_events) // inference.minibatch
        return max(0, min(inference.max_staleness, known) + 1 - ahead)

    def _hold(self, full: bool) -> None:
        """Reads no further while the base is too old, or a pass at its end; polling goes on, so partitions are kept."""
        for partition, tape in self._tapes.items():
            self._pause(partition, full or self._passes.at_end(tape))

    def _pause(self, partition: Partition, paused: bool) -> None:
        (self._member.pause if paused else self._member.resume)(partition)

    def _until_idle_marks(self, now: float) -> dict[Partition, Position]:
        waits = any(tape.end > tape.begin for tape in self._tapes.values())
        if waits and now - self._marks_at >= MARK_INTERVAL:
            self._marks = self._bus.committed(names.until_idle_group(self._spec))
            self._marks_at = now
        return self._marks

    def _publish(self, learned: list[Learned]) -> None:
        """Dead letters are durable before the increment that passes them; increments before they count as sent.

        The topic's id is looked at after the reading: so what was read is of the topic that the frontier belongs to.
        With an earlier look it might be of a topic that was made anew in between.
        """
        topic_identity.check(self._spec, self._bus, self._shards.snapshots)
        store.publish(self._bus, [letter for each in learned for letter in each.letters])
        outputs, of = [], []
        for each in learned:
            for data in self._encoded(each.increment):
                key = str(each.increment.provenance.partition).encode()
                outputs.append(Output(self._increments, data, key, each.shard))
                of.append(each)
        for offset, each in zip(self._bus.publish(outputs), of, strict=True):
            acknowledged = self._tape(each.increment).acknowledged
            acknowledged[each.shard] = max(acknowledged.get(each.shard, -1), offset)
        for each in learned:
            if each.shard == 0 or not self._kind.together:
                self._metrics.events.inc(each.increment.n_events)
            self._metrics.dead_letters.inc(len(each.letters))
            if each.shard == 0:
                self._tape(each.increment).ahead.append(each.increment.provenance.end)
                self._metrics.minibatches.inc()

    def _tape(self, increment: Increment) -> Tape:
        return self._tapes[Partition(self._topic, increment.provenance.partition)]

    def _encoded(self, increment: Increment) -> list[bytes]:
        try:
            return increments.encode(increment, self._bus.max_record_bytes, self._schemas, self._layout)
        except BadValue as error:
            came = increment.provenance
            where = f"{self._topic}-{came.partition} [{came.begin}, {came.end})"
            raise Fatal(f"{where}: {error}: make inference.minibatch smaller") from error

    def _check_acknowledged(self) -> None:
        """An acknowledged increment that the log does not have (it happens when brokers fail) is made again."""
        if not any(tape.ahead for tape in self._tapes.values()):
            return
        ends = self._bus.ends(self._increments)
        missing = [
            partition
            for partition, tape in self._tapes.items()
            if any(offset >= ends[shard] for shard, offset in tape.acknowledged.items())
        ]
        for partition in missing:
            log.warning("%s: an acknowledged increment is not in the log, starting again at the frontier", partition)
            del self._tapes[partition]
            self._member.pause(partition)
            self._waiting.add(partition)

    def _show_lag(self) -> None:
        """Group offsets, which nothing here ever reads: they serve tools that show lag."""
        try:
            self._member.commit({partition: Position(tape.begin) for partition, tape in self._tapes.items()})
        except Fenced:
            log.info("partitions are being reassigned")
        except BusError as error:
            self._teller.tell(f"group offsets not committed: {error}")
