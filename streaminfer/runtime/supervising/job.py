"""All of a spec at work: its services as supervised processes, a file being loaded, the posterior followed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from streaminfer.bus.protocol import Bus, BusError, Unavailable
from streaminfer.runtime import names, topic_identity
from streaminfer.runtime.dead_letters import store
from streaminfer.runtime.dead_letters.tally import Tally
from streaminfer.runtime.following.shards import Shards
from streaminfer.runtime.lag import behind
from streaminfer.runtime.loading.produce import Loader, Progress
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.role import Mark, Role
from streaminfer.runtime.running.patience import Patience, naps
from streaminfer.runtime.supervising.chains import Chains
from streaminfer.runtime.supervising.supervisor import Child, Supervisor
from streaminfer.spec import Spec
from streaminfer.variational.counts import Totals
from streaminfer.variational.frontier import Frontier
from streaminfer.variational.snapshot import Snapshot

log = logging.getLogger(__name__)

TICK = 0.1


class Status(NamedTuple):
    """How things stand: what is loaded, the newest snapshot, positions still to come, processes."""

    loading: Progress | None
    snapshot: Snapshot | None
    behind: int
    alive: int
    restarts: int
    chains: str = ""
    """What the chains of a sampled posterior do."""


class Gain(NamedTuple):
    """How many events and dead letters are new."""

    events: int
    dead_letters: int


class Job:
    """Runs until `stopping`, or until idle if asked to. `children` may be killed at any time."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        roles: Sequence[Role],
        children: list[Child],
        data: Path | None = None,
        until_idle: bool = False,
    ) -> None:
        """`roles` are the services that the children are of."""
        self._spec, self._bus, self._roles, self._until_idle = spec, bus, roles, until_idle
        ids = self.schemas = schemas.prepare(spec, bus)
        names.check_data_topic(spec, bus)
        self._loading = Loader(spec, bus, data, ids).run() if data is not None else None
        self._progress: Progress | None = None
        self._marks: list[Mark] = []
        self._behind = 0
        self.follower = Shards(spec, bus, ids)
        self._before = self.follower.catch_up()
        topic_identity.check(spec, bus, self.follower.snapshots)
        self._letters = bus.ends(names.topic(spec, "dead-letters"))
        self._chains = None if spec.sampling is None else Chains(spec, spec.sampling, bus, ids)
        self.supervisor = Supervisor(children)

    @property
    def ready(self) -> bool:
        """Whether there is a posterior and every process lives that should by now."""
        lives = all(child.alive or child.to_come for child in self.supervisor.children)
        return self.follower.snapshot is not None and lives

    @property
    def idle(self) -> bool:
        """Whether all data was in the posterior when the ends were read; never before `until_idle` reads them."""
        return bool(self._marks) and all(mark.reached(self.follower.snapshot) for mark in self._marks)

    @property
    def progress(self) -> Gain:
        """What came in since the beginning, from any worker."""
        if self.follower.snapshot is None:
            return Gain(0, 0)
        then, now = Totals() if self._before is None else self._before.counts, self.follower.snapshot.counts
        return Gain(now.n_events - then.n_events, now.n_dead_lettered - then.n_dead_lettered)

    def reasons(self) -> Tally:
        """Why there were dead letters since the beginning, as far as the bus tells soon."""
        try:
            return store.counted(store.newest(self._spec, self._bus, self._letters))
        except BusError as error:
            log.info("the reasons of dead letters cannot be read: %s", error)
            return Tally()

    def run(self, stopping: Callable[[], bool]) -> Iterator[Status]:
        """Keeps everything going, with a status some times a second; stops all processes at the end.

        A bus that is away is waited for: the processes do the same, and go on when it is back.
        """
        waits = Patience(log)
        resting: Iterator[None] = iter(())
        try:
            while not stopping() and not self.idle:
                self.supervisor.tick()
                if next(resting, self) is self:
                    try:
                        self._load()
                        self._follow()
                        self._behind = self._count_behind()
                        waits.worked()
                    except Unavailable as error:
                        resting = naps(waits.failed(f"the bus does not answer: {error}"))
                yield self._status()
        finally:
            self.supervisor.stop()
            self.follower.close()
            if self._chains is not None:
                self._chains.close()

    def _load(self) -> None:
        """One batch of the file; after the last one the ends are read, once."""
        if self._loading is not None:
            progress = next(self._loading, None)
            if progress is None:
                self._loading = None
            else:
                self._progress = progress
        elif self._until_idle and not self._marks:
            self._marks = [role.idle(self._spec, self._bus) for role in self._roles if role.idle is not None]

    def _follow(self) -> None:
        before = self._place()
        self.follower.poll(0.0 if self._loading is not None else TICK)
        if self._chains is not None:
            self._chains.poll()
        after = self._place()
        if after is not None and after != before:
            self.supervisor.progressed()

    def _place(self) -> tuple[int, Mapping[int, int]] | None:
        """The pass over the data, and the positions in it."""
        snapshot = self.follower.snapshot
        return None if snapshot is None else (snapshot.frontier.epoch, snapshot.frontier.positions)

    def _status(self) -> Status:
        alive = sum(child.alive for child in self.supervisor.children)
        newest = self.follower.snapshot
        chains = "" if self._chains is None else self._chains.said(newest)
        return Status(self._progress, newest, self._behind, alive, self.supervisor.restarts, chains)

    def _count_behind(self) -> int:
        """Positions of the data topic that are not in the posterior yet; each once for every pass that is to come."""
        snapshot = self.follower.snapshot
        frontier = Frontier() if snapshot is None else snapshot.frontier
        topic = names.data_topic(self._spec)
        left, again = behind(frontier, self._bus, topic), self._spec.inference.n_epochs - 1 - frontier.epoch
        if not again:
            return left
        lasts = frontier.ends or self._bus.ends(topic)
        return left + again * sum(max(0, lasts.get(index, at) - at) for index, at in frontier.starts.items())
