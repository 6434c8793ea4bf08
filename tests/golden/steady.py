"""A bus whose polls are the same in every run: what can be read is read, in the order of partitions.

A poll of a real bus brings whatever has arrived. On this one a poll brings all that was in the log when it was called.
So the services take the same steps in every run, also on a busy machine. It knows nothing but the bus protocol.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from streaminfer.bus.protocol import Bus, Member, Output, Partition, Poll, Positions, Reader, Slice, Writer

TOPIC_ID = "golden"
PATIENCE_S = 60.0


class Activity:
    """Counts all that happens on a bus, so that a driver knows when a service has nothing left to do."""

    def __init__(self) -> None:
        self.count = 0


class SteadyReader:
    """Polls until all is there that was in the log when the poll began, or `max_records`."""

    def __init__(self, bus: Bus, inner: Reader, partitions: set[Partition], activity: Activity) -> None:
        self._bus, self._inner, self._activity = bus, inner, activity
        self._partitions, self._paused = partitions, set[Partition]()

    def poll(self, timeout: float, max_records: int = 10_000) -> Poll:
        ends = {partition: end for partition, end in self._ends().items() if partition not in self._paused}
        polled = [self._inner.poll(0.0, max_records)]
        deadline = time.monotonic() + PATIENCE_S
        while (room := max_records - _n_records(polled)) > 0 and not self._all_there(ends, polled):
            assert time.monotonic() < deadline, f"not read in time: {ends}"
            polled.append(self._inner.poll(0.05, room))
        found = self._handed_on(_merged(polled))
        self._activity.count += bool(found.slices or found.assigned or found.revoked)
        return found

    def seek(self, partition: Partition, position: int) -> None:
        self._partitions.add(partition)
        self._inner.seek(partition, position)

    def position(self, partition: Partition) -> int:
        return self._inner.position(partition)

    def pause(self, partition: Partition) -> None:
        self._paused.add(partition)
        self._inner.pause(partition)

    def resume(self, partition: Partition) -> None:
        self._paused.discard(partition)
        self._inner.resume(partition)

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _ends(self) -> dict[Partition, int]:
        ends = {topic: self._bus.ends(topic) for topic in sorted({each.topic for each in self._partitions})}
        return {each: ends[each.topic][each.index] for each in self._partitions}

    def _all_there(self, ends: Mapping[Partition, int], polled: Sequence[Poll]) -> bool:
        lost = {partition for each in polled for partition in each.revoked}
        return all(self._inner.position(each) >= end for each, end in ends.items() if each not in lost)

    def _handed_on(self, polled: Poll) -> Poll:
        return polled


class SteadyMember(SteadyReader):
    """The only member of its group. It is given its partitions one by one in order, each in a poll of its own."""

    def __init__(self, bus: Bus, inner: Member, activity: Activity) -> None:
        super().__init__(bus, inner, set(), activity)
        self.inner = inner
        self._held: list[Partition] = []
        self._met = False

    @property
    def group(self) -> str:
        return self.inner.group

    @property
    def assignment(self) -> frozenset[Partition]:
        return self.inner.assignment

    def commit(self, positions: Positions) -> None:
        self.inner.commit(positions)

    def _all_there(self, ends: Mapping[Partition, int], polled: Sequence[Poll]) -> bool:
        self._met = self._met or any(each.assigned for each in polled)
        return self._met and super()._all_there(ends, polled)

    def _handed_on(self, polled: Poll) -> Poll:
        self._partitions.difference_update(polled.revoked)
        self._held = sorted({*self._held, *polled.assigned})
        given, self._held = tuple(self._held[:1]), self._held[1:]
        return polled._replace(assigned=given)


class SteadyWriter:
    def __init__(self, inner: Writer, activity: Activity) -> None:
        self._inner, self._activity = inner, activity

    def commit(self, outputs: Sequence[Output], positions: Positions | None = None, owner: Any = None) -> list[int]:
        self._activity.count += 1
        return self._inner.commit(outputs, positions, owner.inner if isinstance(owner, SteadyMember) else owner)

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class SteadyBus:
    """Another bus, made steady. Its topics have one id for ever: snapshots say which, and the bus draws it by lot."""

    def __init__(self, inner: Bus) -> None:
        self._inner = inner
        self.activity = Activity()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __str__(self) -> str:
        return str(self._inner)

    def topic_id(self, topic: str) -> str:
        self._inner.topic_id(topic)
        return TOPIC_ID

    def publish(self, outputs: Sequence[Output]) -> list[int]:
        self.activity.count += bool(outputs)
        return self._inner.publish(outputs)

    def reader(self, positions: Mapping[Partition, int]) -> SteadyReader:
        return SteadyReader(self._inner, self._inner.reader(positions), set(positions), self.activity)

    def member(self, group: str, topics: Sequence[str], instance: str | None = None) -> SteadyMember:
        return SteadyMember(self._inner, self._inner.member(group, topics, instance), self.activity)

    def writer(self, name: str) -> SteadyWriter:
        return SteadyWriter(self._inner.writer(name), self.activity)


def _n_records(polled: Sequence[Poll]) -> int:
    return sum(len(part.records) for each in polled for part in each.slices)


def _merged(polled: Sequence[Poll]) -> Poll:
    """One poll in place of several, with one slice of each partition, in order."""
    slices: dict[Partition, Slice] = {}
    for part in (part for each in polled for part in each.slices):
        before = slices.get(part.partition)
        slices[part.partition] = (
            part if before is None else before._replace(end=part.end, records=before.records + part.records)
        )
    return Poll(
        tuple(slices[partition] for partition in sorted(slices)),
        tuple(partition for each in polled for partition in each.assigned),
        tuple(partition for each in polled for partition in each.revoked),
    )
