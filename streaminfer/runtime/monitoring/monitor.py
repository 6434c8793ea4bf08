"""The service `monitor`: follows a posterior, has it measured, publishes what was found, and says the verdict.

Its loop never measures. Monitors share the one partition of `metrics`: its owner has a `Measuring` and is the only
writer, the others follow. Who becomes the owner reads first what was published, so no check is published twice for one
version.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from streaminfer.bus.protocol import Bus, Output, Partition, Poll, Position
from streaminfer.measuring.judging.checks import CHECKS
from streaminfer.measuring.judging.verdict import ANSWERS, State, Verdict, answer, verdict
from streaminfer.measuring.measurement import unknown
from streaminfer.measuring.published import Published
from streaminfer.runtime import names
from streaminfer.runtime.logs import told_assigned
from streaminfer.runtime.monitoring.notes import Notes
from streaminfer.runtime.monitoring.parts import Measuring, Memory
from streaminfer.runtime.monitoring.standing import state_of
from streaminfer.runtime.owning.owner import Owner
from streaminfer.runtime.telemetry import MonitorMetrics
from streaminfer.spec import Spec
from streaminfer.topics import declarations
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import measurements
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadValue

log = logging.getLogger(__name__)

JUDGE_S: Final = 5.0
"""Seconds between two verdicts."""


class Monitor:
    """One process's service. `clock` measures intervals, `wall` says the time of day, in seconds since 1970."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        memory: Memory,
        measuring: Callable[[], Measuring],
        metrics: MonitorMetrics,
        instance: str | None = None,
        schemas: Schemas = DECLARED,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._spec, self._bus, self._memory, self._make = spec, bus, memory, measuring
        self._metrics, self._schemas, self._clock, self._wall = metrics, schemas, clock, wall
        self._partition = Partition(names.topic(spec, measurements.TOPIC), 0)
        self._member = bus.member(names.monitor_group(spec), [self._partition.topic], instance)
        self._notes: Notes | None = None
        self._owner: Owner | None = None
        self._measuring: Measuring | None = None
        self._seen: Snapshot | None = None
        self._owns = self._polled = False
        self._judged_at = -JUDGE_S
        self.verdict: Verdict | None = None
        """The newest one."""

    @property
    def ready(self) -> bool:
        return self._polled and self._notes is not None and self._notes.caught_up and self._memory.ready

    def step(self, timeout: float) -> None:
        """Keeps membership, follows, publishes what was measured, and judges now and then."""
        time.sleep(timeout)  # waiting inside a poll would look at the bus much more often
        self._reassign(self._member.poll(0.0))
        self._memory.step(0.0)
        if self._notes is None:
            self._notes = Notes(self._spec, self._bus, self._schemas)
        come = self._notes.poll(0.0)
        if self._owns and self._notes.caught_up:
            self._measure(self._notes, come)
        if self._clock() - self._judged_at >= JUDGE_S and self._notes.caught_up:
            self._judged_at = self._clock()
            self._judge(self._notes)

    def _reassign(self, polled: Poll) -> None:
        self._polled = True
        if self._partition in polled.revoked:
            self._owns = False
            self._leave()
        if self._partition in polled.assigned:
            self._owns = True
            self._member.seek(self._partition, self._bus.ends(self._partition.topic)[0])
            self._member.pause(self._partition)
        if polled.assigned or polled.revoked:
            told_assigned(log, self._member.assignment)

    def _measure(self, notes: Notes, come: Sequence[Published]) -> None:
        """The owner's turn. What its predecessors published is read after they are fenced, and before anything else."""
        if self._measuring is None or self._owner is None:
            self._become_owner()
            return
        for each in come:
            self._measuring.saw(each)
        newest = self._memory.snapshot
        if newest is not None and newest is not self._seen:
            self._seen = newest
            self._measuring.see(newest)
        come = (*self._measuring.poll(), *self._memory.unpublished())
        found = [each for each in come if _is_newer(each, notes)]
        if found:
            self._publish(self._owner, notes, found)

    def _become_owner(self) -> None:
        """Fences first: what is read after that is all that there will ever be of others."""
        self._owner = Owner(self._bus, names.monitor_writer(self._spec), [self._partition])
        fenced = Notes(self._spec, self._bus, self._schemas, [measurements.TOPIC])
        try:
            fenced.catch_up()
        finally:
            fenced.close()
        self._measuring = self._make()
        self._metrics.measures.set(1)
        for published in fenced.measured.values():
            self._measuring.saw(published)
        if self._notes is not None:
            self._notes.measured.update(fenced.measured)

    def _publish(self, owner: Owner, notes: Notes, found: Sequence[Published]) -> None:
        most = min(self._bus.max_record_bytes, declarations()[measurements.TOPIC].max_bytes)
        records = [self._record(each, most) for each in found]
        outputs = [Output(self._partition.topic, data, key, 0) for key, data in records]
        owner.commit(outputs, {self._partition: Position(0)}, self._member)
        for each in found:
            notes.measured[each.measurement.check, each.measurement.subject] = each
        self._metrics.published.inc(len(found))

    def _record(self, published: Published, most: int) -> tuple[bytes, bytes]:
        """One that cannot be written, as it is too large or not finite, is unknown and says why."""
        try:
            return measurements.encode(published, most, self._schemas)
        except BadValue as error:
            log.warning("the check %s cannot be published: %s", published.measurement.check, error)
            found = published.measurement
            said = unknown(found.check, f"What was measured cannot be stored: {error}"[:500], "", found.subject)
            return measurements.encode(replace(published, measurement=said), most, self._schemas)

    def _judge(self, notes: Notes) -> None:
        now = round(self._wall() * 1000)
        silent = notes.silent(now)
        state = state_of(self._spec, self._bus, self._memory.snapshot, [each for _, each in silent], now)
        self.verdict = verdict(state, notes.measured.values(), self._spec.monitor)
        self._memory.judged(self.verdict)
        self._tell(notes, state, self.verdict, [service for service, _ in silent])

    def _tell(self, notes: Notes, state: State, found: Verdict, silent: Sequence[str]) -> None:
        metrics = self._metrics
        metrics.verdict.set(ANSWERS.index(found.verdict))
        metrics.waiting.set(state.waiting_seconds)
        bad = state.n_dead_lettered + state.n_lost + state.n_rejected
        metrics.bad.set(bad / max(1, state.n_events + state.n_dead_lettered + state.n_lost))
        metrics.ignored.set(notes.n_ignored)
        for (check, _), each in notes.measured.items():
            if check in CHECKS:
                metrics.check(check, ANSWERS.index(answer(each.measurement.status)), each.measured_at)
        for service in {service for service, _ in notes.heard}:
            newest = max(each.at for (role, _), each in notes.heard.items() if role == service)
            metrics.service(service, newest, list(silent).count(service))

    def _leave(self) -> None:
        self._metrics.measures.set(0)
        measuring, self._measuring, self._seen = self._measuring, None, None
        owner, self._owner = self._owner, None
        if measuring is not None:
            measuring.close()
        if owner is not None:
            owner.close()

    def _forget(self) -> None:
        self._leave()
        notes, self._notes = self._notes, None
        if notes is not None:
            notes.close()

    def reset(self) -> None:
        self._metrics.errors.inc()
        self._forget()
        self._memory.reset()

    def close(self) -> None:
        self._forget()
        self._memory.close()
        self._member.close()


def _is_newer(published: Published, notes: Notes) -> bool:
    """Whether a check was not published for this version, or for a later one."""
    known = notes.measured.get((published.measurement.check, published.measurement.subject))
    return known is None or known.moment.version < published.moment.version
