"""Members that behave as services do: seek what they are given, read on, remember what they saw."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from streaminfer.bus.protocol import Bus, Partition, Record
from tests.contracts.bus_harness import Harness


class Actor:
    """A member that starts each partition at the group's position, else at the log's start."""

    def __init__(self, bus: Bus, group: str, topics: Sequence[str], instance: str | None = None) -> None:
        self.bus = bus
        self.member = bus.member(group, topics, instance)
        self.owned: set[Partition] = set()
        self.revoked: list[Partition] = []
        self.records: list[Record] = []

    def poll(self, timeout: float = 0.01) -> None:
        poll = self.member.poll(timeout)
        self.revoked += poll.revoked
        self.owned -= set(poll.revoked)
        assert not self.owned & set(poll.assigned), "assigned what it already has"
        self.owned |= set(poll.assigned)
        assert self.owned == self.member.assignment
        committed = self.bus.committed(self.member.group)
        for partition in poll.assigned:
            start = self.bus.starts(partition.topic)[partition.index]
            self.member.seek(partition, committed[partition].offset if partition in committed else start)
        for slice_ in poll.slices:
            assert slice_.partition in self.owned
            self.records += slice_.records


def until(condition: Callable[[], bool], actors: Sequence[Actor]) -> None:
    """Polls the actors in turn until the condition holds; fails after 30 seconds."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"not in time; owned: {[sorted(actor.owned) for actor in actors]}"
        for actor in actors:
            actor.poll()


def shared_out(actors: Sequence[Actor], partitions: int) -> Callable[[], bool]:
    """Whether each of N partitions has exactly one owner and no member has two more than another."""

    def holds() -> bool:
        counts = [len(actor.owned) for actor in actors]
        everything = set().union(*(actor.owned for actor in actors))
        return sum(counts) == len(everything) == partitions and max(counts) - min(counts) <= 1

    return holds


def pass_time(harness: Harness, seconds: float, actors: Sequence[Actor]) -> None:
    """Lets time pass in steps shorter than a session, in which these actors poll and all others are silent."""
    steps = 1 + int(seconds / (harness.session_s / 6))
    for _ in range(steps):
        harness.advance(seconds / steps)
        for actor in actors:
            actor.poll()
