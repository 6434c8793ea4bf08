"""A story played on a bus: what is sent when, and the real services in between, one at a time until nothing happens."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

from streaminfer.bus.protocol import Bus, Output, Record
from tests.contracts.bus_harness import read_all
from tests.golden import driving
from tests.golden.steady import SteadyBus
from tests.simulation.broker import Clock

BEGIN = 1_700_000_000.0
LATER = BEGIN + 3600.0
"""When a golden bus is continued."""
TICK = 2.5
QUIET_STEPS = 3
MOST_STEPS = 2000

Event = tuple[int, int, str]
"""Partition, timestamp in milliseconds, value with a character for each byte."""
Stage = list[Event]


class Story(NamedTuple):
    """A spec, and its events in stages: after each the services run until nothing happens."""

    spec: dict[str, Any]
    quiet: int
    """Ticks without any change after which a story goes on."""
    written: list[Stage]
    ticks: int | None
    """How many ticks the last stage that is written has, if it is not to come to its end."""
    learned: Stage
    """A worker makes increments of these, and no master folds them."""
    unread: Stage
    """No worker has read these."""
    continued: list[Stage]
    """What is sent after the services have come back."""
    merges: bool = False
    """Whether workers make one increment of several minibatches, if they may; those of older stories never did."""


class Player:
    """A story, the bus with its topics, and the services on it."""

    def __init__(self, story: Story, bus: Bus, clock: Clock, compacts: bool = False) -> None:
        """If the bus `compacts` soon, what services write is read at every tick, else at the end."""
        self._story, self._clock, self._compacts = story, clock, compacts
        self._log, self._bus = bus, SteadyBus(bus)
        self._topics = written_topics(story.spec)
        self._records: list[Record] = []
        self._read_to: dict[str, dict[int, int]] = {}

    def write(self) -> list[Record]:
        """The part of the story that a golden bus is made of, from nothing; what the services wrote."""
        self._read_to = {topic: self._bus.starts(topic) for topic in self._topics}
        with closing(self._master()) as master, closing(self._worker("before")) as worker:
            self._settle(master, worker)
            for stage in self._story.written[:-1]:
                self._send(stage)
                self._settle(master, worker)
            self._send(self._story.written[-1])
            self._settle(master, worker, self._story.ticks)
        with closing(self._worker("behind")) as worker:
            self._send(self._story.learned)
            self._exhaust(worker)
        self._send(self._story.unread)
        return self.records()

    def go_on(self) -> list[Record]:
        """The rest of the story on a golden bus; what the services wrote, topic by topic."""
        self._read_to = {topic: self._bus.ends(topic) for topic in self._topics}
        with closing(self._master()) as master, closing(self._worker("after")) as worker:
            self._settle(master, worker)
            for stage in self._story.continued:
                self._send(stage)
                self._settle(master, worker)
        return self.records()

    def records(self) -> list[Record]:
        """What services have written, topic by topic and partition by partition."""
        self._collect()
        return sorted(self._records, key=place)

    def _collect(self) -> None:
        """Reads on."""
        for topic in self._topics:
            ends = self._bus.ends(topic)
            if ends != self._read_to[topic]:
                self._records += read_all(self._log, topic, self._read_to[topic])
                self._read_to[topic] = ends

    def _master(self) -> Any:
        return driving.master(self._story.spec, self._bus, self._clock)

    def _worker(self, identity: str) -> Any:
        return driving.worker(self._story.spec, self._bus, self._clock, identity, self._story.merges)

    def _send(self, stage: Stage) -> None:
        """One transaction, as `produce` does."""
        topic = data_topic(self._story.spec)
        with self._bus.writer("golden") as writer:
            writer.commit([Output(topic, value.encode("latin-1"), None, at, (), stamp) for at, stamp, value in stage])

    def _settle(self, master: Any, worker: Any, ticks: int | None = None) -> None:
        """All services in turn until nothing happens any more, or for a number of ticks."""
        quiet = n_ticks = 0
        while quiet < self._story.quiet and n_ticks != ticks:
            before = self._bus.activity.count
            self._exhaust(master)
            self._clock.advance(TICK)
            self._exhaust(master)
            self._exhaust(worker)
            quiet = quiet + 1 if self._bus.activity.count == before else 0
            n_ticks += 1
            if self._compacts:
                self._collect()

    def _exhaust(self, service: Any) -> None:
        """Steps until a service has nothing left to do at this time."""
        quiet = 0
        for _ in range(MOST_STEPS):
            before = self._bus.activity.count
            service.step(0.0)
            quiet = quiet + 1 if self._bus.activity.count == before else 0
            if quiet == QUIET_STEPS:
                return
        raise AssertionError(f"still at work after {MOST_STEPS} steps")


def place(record: Record) -> tuple[str, int, int]:
    return (record.partition.topic, record.partition.index, record.offset)


def data_topic(spec: Mapping[str, Any]) -> str:
    return f"{spec['name']}.events"


def written_topics(spec: Mapping[str, Any]) -> list[str]:
    """The topics that services write."""
    return sorted(topic.name for topic in driving.topics(spec) if topic.name != data_topic(spec))
