"""What a worker has read of one data partition and not yet published, and how it is cut into minibatches."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from streaminfer.bus.protocol import Partition, Record, Slice
from streaminfer.variational.forgetting.reached import Reached

MAX_BYTES: Final = 64 << 20
"""A minibatch of very large events is cut here; like every cut it depends on positions alone."""


class Minibatch(NamedTuple):
    """Consecutive events [begin, end) of one partition, in positions."""

    partition: Partition
    begin: int
    end: int
    records: list[Record]
    epoch: int = 0


class Tape:
    """[begin, end) is read and unpublished; everything before `begin` is published, up to the last acknowledgement."""

    def __init__(self, partition: Partition, position: int, max_bytes: int | None = None, epoch: int = 0) -> None:
        self.partition, self.epoch = partition, epoch
        self._max_bytes = MAX_BYTES if max_bytes is None else min(MAX_BYTES, max_bytes)
        self.begin = position
        self.end = position
        self.acknowledged: dict[int, int] = {}
        """By shard, the offset in the increments topic of the last increment of this partition that the bus took."""
        self.ahead: deque[int] = deque()
        """The ends of published minibatches that the frontier has not reached."""
        self.time_reached: Reached = ()
        """The time that the partition had reached at `begin`, or at the last cut, if times matter."""
        self._records: deque[Record] = deque()
        self._bytes = 0
        self._since = 0.0

    def extend(self, part: Slice, now: float) -> None:
        """Takes what a poll read; it begins at the end of the tape."""
        if part.begin != self.end:
            raise ValueError(f"{part.partition}: a slice from {part.begin} does not continue a tape to {self.end}")
        if self.begin == self.end:
            self._since = now
        self._records.extend(part.records)
        self._bytes += sum(len(record.value or b"") for record in part.records)
        self.end = part.end

    def cut(
        self,
        minibatch: int,
        linger: float,
        now: float,
        mark: int | None = None,
        merged: int = 0,
        positions: int | None = None,
    ) -> Minibatch | None:
        """The next minibatch if one is due: at a multiple of `minibatch`, at `mark`, or after `linger` seconds.

        Minibatches that are whole come as one if together they have at most `merged` bytes, and so many positions.
        """
        boundary = (self.begin // minibatch + 1) * minibatch
        if merged and self.end > boundary:
            filled = self._filled_at(min(merged, self._max_bytes))
            filled = filled if positions is None else min(filled, self.begin + positions)
            boundary = max(boundary, filled // minibatch * minibatch)
        if self._bytes >= self._max_bytes:
            boundary = min(boundary, self._filled_at(self._max_bytes))
        if mark is not None and self.begin < mark:
            boundary = min(boundary, mark)
        if self.end < boundary:
            lingered = linger > 0 and self.end > self.begin and now - self._since >= linger
            if not lingered:
                return None
            boundary = self.end
        return self._take(boundary, now)

    def flush(self, now: float, stop: int | None = None) -> Minibatch | None:
        """All that was read, due or not; what is after `stop` belongs to the next minibatch."""
        if self.end == self.begin:
            return None
        return self._take(self.end if stop is None or stop <= self.begin else min(self.end, stop), now)

    def skip(self, position: int) -> None:
        """Goes on at a position without what is there."""
        self._records.clear()
        self._bytes = 0
        self.begin = self.end = position

    def due_in(self, linger: float, now: float) -> float:
        """Seconds until `linger` cuts, infinite if nothing waits or it never does."""
        if linger <= 0 or self.begin == self.end:
            return float("inf")
        return max(0.0, self._since + linger - now)

    def reached(self, frontier: int) -> None:
        """Forgets published minibatches that are in the posterior."""
        while self.ahead and self.ahead[0] <= frontier:
            self.ahead.popleft()

    def _take(self, boundary: int, now: float) -> Minibatch:
        records = []
        while self._records and self._records[0].offset < boundary:
            record = self._records.popleft()
            self._bytes -= len(record.value or b"")
            records.append(record)
        batch = Minibatch(self.partition, self.begin, boundary, records, self.epoch)
        self.begin = boundary
        self._since = now
        return batch

    def _filled_at(self, most_bytes: int) -> int:
        """The position after the record that fills so many bytes, else after all that was read."""
        if self._bytes < most_bytes:
            return self.end
        total = 0
        for record in self._records:
            total += len(record.value or b"")
            if total >= most_bytes:
                return record.offset + 1
        return self.end
