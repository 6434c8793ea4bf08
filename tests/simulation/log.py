"""One partition of the simulated broker, and a fair read of several."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter

from streaminfer.bus.declaration import LARGEST_RECORD
from streaminfer.bus.protocol import OutOfRange, Output, Partition, Record, Slice

MAX_POLL_BYTES = LARGEST_RECORD
TOMBSTONE_MS = 24 * 3600 * 1000

_offset = attrgetter("offset")


def size_of(record: Record | Output) -> int:
    """Key, value and headers together."""
    size = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name.encode()) + len(value)
    return size


class Log:
    """Records in the order of their offsets. `end` is a counter of its own, so that nothing makes it go back."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.start = self.end = 0
        self.records: list[Record] = []

    def append(self, output: Output, now_ms: int) -> int:
        offset = self.end
        stamp = now_ms if output.timestamp is None else output.timestamp
        self.records.append(Record(self.partition, offset, stamp, output.key, output.value, output.headers))
        self.end = offset + 1  # last: a reader in another thread goes no further than the end it has seen
        return offset

    def check(self, position: int) -> None:
        if not self.start <= position <= self.end:
            raise OutOfRange(self.partition, position, self.start, self.end)

    def trim(self, position: int) -> None:
        """Makes `position` the start if it is beyond it."""
        self.start = max(self.start, position)
        self.records = self.records[bisect_left(self.records, self.start, key=_offset) :]

    def compact(self, now_ms: int) -> None:
        """Keeps the newest record of each key, and drops that too if it is a tombstone older than a day."""
        newest = {record.key: record.offset for record in self.records}
        oldest = now_ms - TOMBSTONE_MS
        self.records = [
            record
            for record in self.records
            if newest[record.key] == record.offset and (record.value is not None or record.timestamp >= oldest)
        ]

    def read(self, begin: int, max_records: int, max_bytes: int, room: int) -> tuple[Slice | None, int]:
        """At most `max_records` and `max_bytes`, but a first record that fits in `room`; and the size."""
        end, used = self.end, 0
        taken: list[Record] = []
        for record in self.records[bisect_left(self.records, begin, key=_offset) :]:
            if record.offset >= end:
                break
            size = size_of(record)
            if len(taken) == max_records or used + size > (max_bytes if taken else max(max_bytes, room)):
                end = record.offset
                break
            taken.append(record)
            used += size
        return (Slice(self.partition, begin, end, tuple(taken)) if end > begin else None), used


def fetch(wants: Sequence[tuple[Log, int]], max_records: int) -> tuple[Slice, ...]:
    """Reads on from each position, in the order given; what one log leaves of its share goes to those after it.

    Raises OutOfRange before anything is read.
    """
    behind = []
    for log, position in wants:
        log.check(position)
        if position < log.end:
            behind.append((log, position))
    slices: list[Slice] = []
    records_left, bytes_left = max_records, MAX_POLL_BYTES
    for served, (log, position) in enumerate(behind):
        if records_left <= 0 or bytes_left <= 0:
            break
        sharers = len(behind) - served
        share = max(1, records_left // sharers)
        found, size = log.read(position, share, bytes_left // sharers, room=bytes_left)
        if found is not None:
            slices.append(found)
            records_left -= len(found.records)
            bytes_left -= size
    return tuple(slices)
