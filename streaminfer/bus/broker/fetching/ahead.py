"""Records fetched but not yet handed out, and which partition is served next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from streaminfer.bus.broker.fetching.batches import Unread
from streaminfer.bus.protocol import Partition, Record, Slice, Unreadable


class Ahead:
    """What was read of one partition beyond its position: records up to `end`, with holes."""

    def __init__(self, records: Sequence[Any], end: int) -> None:
        self.records = deque(records)
        self.end = end

    def take(self, partition: Partition, begin: int, count: int) -> Slice:
        """The next `count` records at most; holes go with the records before them."""
        taken = [self.records.popleft() for _ in range(min(count, len(self.records)))]
        end = self.records[0].offset if self.records else self.end
        return Slice(partition, begin, end, tuple(_record(partition, raw) for raw in taken))


def shares(waiting: Iterable[tuple[Partition, int]], room: int) -> list[tuple[Partition, int]]:
    """How many records each partition may give, first come first served: evenly, and what one lacks others get."""
    left = list(waiting)
    given = []
    while left and room > 0:
        partition, available = left.pop(0)
        share = min(available, -(-room // (len(left) + 1)))
        given.append((partition, share))
        room -= share
    return given


def _record(partition: Partition, raw: Any) -> Record:
    # A header of Kafka may have no value; for us it is an empty one.
    headers = tuple((name, value or b"") for name, value in raw.headers) if raw.headers else ()
    if type(raw.value) is Unread:
        return Unreadable(partition, raw.offset, raw.timestamp, None, bytes(raw.value), headers, raw.value.reason)
    return Record(partition, raw.offset, raw.timestamp, raw.key, raw.value, headers)
