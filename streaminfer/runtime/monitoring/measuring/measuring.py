"""What is due to be measured of a posterior, and the answers: the monitor's side, which never computes and never waits.

A version is measured by one child, check by check. A check that was published for a version is not made for it again,
by whatever monitor. If the child dies or takes too long, the check that it was at is unknown, and the others go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streaminfer.measuring.judging.verdict import GROWN
from streaminfer.measuring.measurement import Measurement, unknown
from streaminfer.measuring.published import Published
from streaminfer.runtime.monitoring.measuring import messages
from streaminfer.runtime.monitoring.measuring.frames import BrokenPipe
from streaminfer.runtime.monitoring.measuring.helper import Helper
from streaminfer.runtime.monitoring.measuring.limits import (
    AGAIN_S,
    EVERY_S,
    FIRST_S,
    HOUR_S,
    IDLE_S,
    START_S,
    STEADY_S,
)
from streaminfer.runtime.monitoring.measuring.messages import Request
from streaminfer.runtime.monitoring.measuring.moments import moment_of
from streaminfer.runtime.monitoring.measuring.older import Older
from streaminfer.runtime.monitoring.measuring.tasks.table import Task, tasks_of
from streaminfer.spec import Spec
from streaminfer.tables.draws import is_shown
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import measurements
from streaminfer.wire.errors import WireError

log = logging.getLogger(__name__)


class Done(NamedTuple):
    """The newest version that a check was made for, and when, in seconds since 1970."""

    version: int
    at: float
    known: bool = True
    """Whether it found something out."""
    n_events: int = 0
    """In that version; 0: not known."""


@dataclass
class _Asked:
    """What a child is at."""

    snapshot: Snapshot
    tasks: list[Task]
    """The first is under way, the others wait."""
    since: float = field(default=0.0)


class Measuring:
    """Tell it every snapshot by `see`, and call `poll` again and again."""

    def __init__(
        self,
        spec: Spec,
        bus: str,
        writer: str,
        done: Mapping[str, Done] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`bus` is its URL, `writer` the name of the monitor, and `done` what was published before, by check."""
        self._spec, self._writer, self._clock, self._wall = spec, writer, clock, wall
        self._tasks = tasks_of(spec)
        self._done = dict(done or {})
        self._older = Older(spec.monitor.events)
        self._newest: Snapshot | None = None
        self._first_at = self._asked_at = self._idle_since = -float("inf")
        self._asked: _Asked | None = None
        self.helper = Helper(spec, bus, writer, clock)

    def see(self, snapshot: Snapshot) -> None:
        """A snapshot has come."""
        nothing = snapshot.n_events == 0 if snapshot.payload.sampled is None else not is_shown(snapshot)
        if nothing:
            return
        if self._newest is None:
            self._first_at = self._clock()
        self._newest = snapshot
        self._older.see(snapshot)

    def saw(self, published: Published) -> None:
        """Another monitor, or this one before, has published a measurement."""
        check = published.measurement.check
        known = published.measurement.status != "unknown"
        done = Done(published.moment.version, published.measured_at / 1000, known, published.moment.n_events)
        self._done[check] = max(done, self._done.get(check, done))

    def poll(self) -> list[Published]:
        """What was measured since the last call."""
        found = self._taken()
        if self._asked is not None:
            found += self._ended(self._asked)
        if self._asked is None:
            found += self._next()
        return found

    def _taken(self) -> list[Published]:
        found = []
        for frame in self.helper.answers():
            try:
                published = measurements.decode(*messages.measured_of(frame), self._spec.fingerprint)
            except (BrokenPipe, WireError) as error:
                log.warning("the child that measures is ended: %s", error)
                self.helper.end()
                break
            if self._advanced(published.measurement.check):
                found.append(published)
                self.saw(published)
        return found

    def _advanced(self, check: str) -> bool:
        """Whether an answer is of the check that is under way; goes on to the next one."""
        asked = self._asked
        if asked is None or not asked.tasks or asked.tasks[0].check != check:
            return False
        asked.tasks, asked.since = asked.tasks[1:], self._clock()
        if not asked.tasks:
            self._asked, self._idle_since = None, self._clock()
        return True

    def _ended(self, asked: _Asked) -> list[Published]:
        """If the child is gone or late: the check that it was at is unknown, and the others are to be asked again."""
        task = asked.tasks[0]
        late = self._clock() - asked.since > task.cpu_seconds / self._spec.monitor.share + START_S
        if self.helper.alive and not late:
            return []
        self.helper.end()
        self._asked, self._idle_since = None, self._clock()
        why = "took too long and was ended" if late else "was ended from outside, or has failed"
        log.warning("the child that measures %s, at the check %s", why, task.check)
        said = unknown(task.check, f"The process that measures {why}.", "Wait for the next version.", task.subject)
        return [self._published(asked.snapshot, said)]

    def _published(self, snapshot: Snapshot, found: Measurement) -> Published:
        made = Published(self._spec.fingerprint, self._writer, round(1000 * self._wall()), moment_of(snapshot), found)
        self.saw(made)
        return made

    def _next(self) -> list[Published]:
        """Asks for what is due; what cannot be measured at all is told once, without a child."""
        now, snapshot = self._clock(), self._newest
        if self.helper.alive and now - self._idle_since > IDLE_S:
            self.helper.end()
        pause = EVERY_S if now - self._first_at < HOUR_S else STEADY_S
        if snapshot is None or now < max(self._first_at + FIRST_S, self._asked_at + pause):
            return []
        impossible = [(task, why) for task in self._tasks if (why := task.obstacle(self._spec)) is not None]
        told = [
            self._published(snapshot, unknown(task.check, why, subject=task.subject))
            for task, why in impossible
            if task.check not in self._done
        ]
        due = [task for task in self._due(snapshot) if task not in [each for each, _ in impossible]]
        if due and (self.helper.alive or self.helper.may_start):
            self._asked, self._asked_at = _Asked(snapshot, due, now), now
            checks = tuple(task.check for task in due)
            self.helper.ask(Request(checks, snapshot, self._older.before(snapshot)))
        return told

    def _due(self, snapshot: Snapshot) -> Iterable[Task]:
        """Those of each version first, then those of days."""
        for task in sorted(self._tasks, key=lambda each: each.every(self._spec) or 0.0):
            done = self._done.get(task.check)
            pause = self._pause(task, done, snapshot)
            if done is None or (done.version < snapshot.version and self._wall() - done.at >= pause):
                yield task

    def _pause(self, task: Task, done: Done | None, snapshot: Snapshot) -> float:
        """Seconds after which a check is made of a newer version: few if nothing is known yet, or of much less."""
        every = task.every(self._spec) or 0.0
        if done is None or (task.of_size and 0 < GROWN * done.n_events < snapshot.n_events):
            return 0.0
        return every if done.known else min(every, AGAIN_S)

    def close(self) -> None:
        """Ends the child."""
        self.helper.end()
