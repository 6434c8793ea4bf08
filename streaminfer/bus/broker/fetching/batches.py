"""Batches of other producers, read so that nothing in them can stop a reader.

kafka-python expands a batch without bound, and raises for one that it cannot read: at the next poll it would be
raised again, and again, for ever. Here what cannot be read is handed on as what it is: one record with the bytes of
the batch as an Unread value, or with the bytes of the one record if only that is bad. The reader decides what to do
with it; a worker makes it a dead letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kafka.errors import CorruptRecordError, KafkaError
from kafka.record import memory_records
from kafka.record.default_records import DefaultRecord, DefaultRecordBatch
from kafka.record.util import decode_varint

from streaminfer.bus.broker.fetching import plain
from streaminfer.bus.broker.fetching.expanding import EXPANDERS, TooBig

MAX_EXPANDED: Final = 64 << 20
"""A batch may have this many bytes when it is expanded."""
MAX_FETCHED: Final = 128 << 20
"""No further batch is expanded in one poll after this many bytes."""


class Enough(KafkaError):  # type: ignore[misc]  # kafka-python has no types
    """What is fetched would expand too far for one poll: the rest is to be fetched again, later."""


class Expanded:
    """Bytes expanded since a poll began."""

    total = 0


expanded: Final = Expanded()


class Unread(bytes):
    """Bytes that could not be read as a record, and why."""

    reason: str = ""


class BoundedBatch(DefaultRecordBatch):  # type: ignore[misc]  # kafka-python has no types
    """A batch that raises nothing but Enough while it is iterated: see above."""

    _buffer: bytearray
    _pos: int
    _decompressed: bool
    _next_record_index: int

    def __init__(self, buffer: Any) -> None:
        super().__init__(buffer)
        self._raw = buffer
        self._last = self.base_offset - 1
        self._spoilt = ""

    def _maybe_uncompress(self) -> None:
        if self._decompressed or self.compression_type == self.CODEC_NONE:
            self._decompressed = True
            return
        if expanded.total >= MAX_FETCHED:
            raise Enough
        name, expand = EXPANDERS.get(self.compression_type, (f"codec {self.compression_type}", None))
        try:
            if expand is None:
                raise ValueError("is not known")
            self._buffer = bytearray(expand(bytes(memoryview(self._buffer)[self._pos :]), MAX_EXPANDED))
            self._pos = 0
            expanded.total += len(self._buffer)
        except TooBig:
            self._spoilt = f"it expands ({name}) to more than {MAX_EXPANDED >> 20} MiB"
        except Exception as error:  # the codecs raise whatever they like
            self._spoilt = f"{name}: {type(error).__name__}: {error}"[:200]
        self._decompressed = True

    def __iter__(self) -> Iterator[Any]:
        self._maybe_uncompress()
        appended = self.timestamp_type == self.LOG_APPEND_TIME  # then records have no timestamps of their own
        return self if self._spoilt or self.is_control_batch or appended else self._mostly_plain()

    def _mostly_plain(self) -> Iterator[Any]:
        """Plain records quickly, every other one as `__next__` has it."""
        data = bytes(self._buffer)
        while True:
            left = self._num_records - self._next_record_index
            stop = yield from plain.records(data, self._pos, left, self.base_offset, self.first_timestamp)
            self._pos = stop.place
            self._next_record_index += stop.read
            self._last = stop.offset if stop.read else self._last
            try:
                yield self.__next__()
            except StopIteration:
                return

    def __next__(self) -> Any:
        if self._spoilt:
            return self._give_up()
        try:
            record = super().__next__()
        except CorruptRecordError as error:
            return self._pass_over(error)
        self._last = record.offset
        return record

    next = __next__

    def _pass_over(self, error: CorruptRecordError) -> Any:
        """A record that cannot be read (a header whose name is not UTF-8), by itself if its length can be read."""
        if self._next_record_index >= self._num_records:
            raise StopIteration  # bytes after the last record belong to none
        try:
            length, start = decode_varint(self._buffer, self._pos)
            at = start
            for _ in range(3):  # attributes, timestamp, offset
                delta, at = decode_varint(self._buffer, at)
            if not (at <= start + length <= len(self._buffer) and self._last < self.base_offset + delta):
                raise ValueError("its bounds are wrong")
        except (ValueError, IndexError):
            self._spoilt = str(error)[:200]
            return self._give_up()
        self._pos = start + length
        self._next_record_index += 1
        self._last = self.base_offset + delta
        data = Unread(self._buffer[start : start + length])
        data.reason = f"a record that cannot be read: {error}"[:300]
        return self._stand_in(data)

    def _give_up(self) -> Any:
        """What is left of the batch as one record, once."""
        if self._last >= self.last_offset or self._next_record_index >= self._num_records:
            raise StopIteration
        data = Unread(self._raw)
        data.reason = (
            f"a batch of {self._num_records} records, offsets {self.base_offset} to {self.last_offset}, that cannot be "
            f"read from {self._last + 1} on: {self._spoilt}"
        )
        self._last += 1
        self._next_record_index = self._num_records
        return self._stand_in(data)

    def _stand_in(self, data: Unread) -> Any:
        return DefaultRecord(len(data), self._last, self.max_timestamp, self.timestamp_type, None, data, [])


def install() -> None:
    """Makes kafka-python read every batch so. It has no setting for it."""
    memory_records.DefaultRecordBatch = BoundedBatch
