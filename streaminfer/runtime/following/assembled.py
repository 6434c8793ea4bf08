"""Messages of one record or several, whole as they come: what readers of draws, questions and answers share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from streaminfer.bus.protocol import Bus, OutOfRange, Partition, Record
from streaminfer.runtime.intact import is_removal, value_of
from streaminfer.runtime.running.patience import Teller
from streaminfer.wire.errors import WireError

log = logging.getLogger(__name__)

T = TypeVar("T")
Add = Callable[[bytes | None, bytes | None], T | None]
"""Takes the key and the value of a record, None if it was removed. Gives what it completes; raises WireError."""


class Whole(NamedTuple, Generic[T]):
    """A message, and the place of its last record."""

    partition: int
    value: T
    offset: int


class AssembledReader(Generic[T]):
    """Follows some partitions of a topic from their starts. Junk is told and ignored."""

    def __init__(self, bus: Bus, topic: str, adders: Mapping[int, Add[T]]) -> None:
        self._bus, self._topic, self._adders, self._teller = bus, topic, adders, Teller(log)
        starts = bus.starts(topic)
        self._reader = bus.reader({Partition(topic, index): starts[index] for index in adders})
        self.bad: list[tuple[Record, str]] = []
        """What the last `poll` could not read, and why."""

    def poll(self, timeout: float) -> list[Whole[T]]:
        """Those that were completed since the last call."""
        self.bad = []
        try:
            polled = self._reader.poll(timeout)
        except OutOfRange as error:
            self._reader.seek(error.partition, error.start)
            return []
        found = []
        for part in polled.slices:
            index = part.partition.index
            for record in part.records:
                try:
                    value = None if is_removal(record) else value_of(record)
                    made = self._adders[index](record.key, value)
                except WireError as error:
                    self._teller.tell(f"{record.partition} offset {record.offset} is ignored: {error}")
                    self.bad.append((record, f"{error.reason}: {error}"))
                    continue
                if made is not None:
                    found.append(Whole(index, made, record.offset))
        return found

    def at_end(self) -> bool:
        """Whether all that is on the topic now was read."""
        ends = self._bus.ends(self._topic)
        return all(position >= ends[index] for index, position in self.positions().items())

    def positions(self) -> dict[int, int]:
        """By partition, how far it was read."""
        return {index: self._reader.position(Partition(self._topic, index)) for index in self._adders}

    def close(self) -> None:
        self._reader.close()
