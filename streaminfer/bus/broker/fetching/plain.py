"""Records of a batch in one loop: what nearly all records are, without the calls that kafka-python makes for each."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

ONE_BYTE: Final = 0x7F
TWO_BYTES: Final = 0x3FFF
"""The largest numbers of N bytes."""


class PlainRecord(NamedTuple):
    """A record without headers and with no number of more than two bytes: what kafka-python asks of a record."""

    size_in_bytes: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[()] = ()
    timestamp_type: int = 0
    checksum: None = None

    def validate_crc(self) -> bool:
        """The checksum is the batch's."""
        return True


class Stop(NamedTuple):
    """The end of a run of plain records: the place of the next record, how many there were, and the last offset."""

    place: int
    read: int
    offset: int


def records(  # noqa: PLR0912, PLR0915 (a function call for each number is what this avoids)
    data: bytes, at: int, count: int, base: int, since: int
) -> Generator[PlainRecord, None, Stop]:
    """At most `count` plain records from a place on, in the layout of Kafka's message format 2.

    `base` and `since` are what offsets and timestamps are counted from. A number n stands for (n >> 1) ^ -(n & 1), so
    an odd one is negative. Its second byte counts 128 times, less the mark in the first. A record that is not plain
    ends the run.
    """
    place, read, last = at, 0, base - 1
    for i in range(1, count + 1):
        try:
            n = data[at]
            at += 1
            if n > ONE_BYTE:
                n += (data[at] - 1) << 7
                at += 1
                if n > TWO_BYTES:
                    break
            size, begin = n, at
            at += 1  # attributes, which are not used
            n = data[at]
            at += 1
            if n > ONE_BYTE:
                n += (data[at] - 1) << 7
                at += 1
                if n > TWO_BYTES:
                    break
            later = n
            n = data[at]
            at += 1
            if n > ONE_BYTE:
                n += (data[at] - 1) << 7
                at += 1
                if n > TWO_BYTES:
                    break
            further = n
            n = data[at]
            at += 1
            if n > ONE_BYTE:
                n += (data[at] - 1) << 7
                at += 1
                if n > TWO_BYTES:
                    break
            key = None
            if not n & 1:
                begin_key, at = at, at + (n >> 1)
                key = data[begin_key:at]
            n = data[at]
            at += 1
            if n > ONE_BYTE:
                n += (data[at] - 1) << 7
                at += 1
                if n > TWO_BYTES:
                    break
            value = None
            if not n & 1:
                begin_value, at = at, at + (n >> 1)
                value = data[begin_value:at]
            if data[at] or data[begin] > ONE_BYTE or 2 * (at + 1 - begin) != size:
                break  # headers, or a length that is wrong
        except IndexError:
            break
        at += 1
        offset = base + ((further >> 1) ^ -(further & 1))
        place, read, last = at, i, offset
        yield PlainRecord(size >> 1, offset, since + ((later >> 1) ^ -(later & 1)), key, value)
    return Stop(place, read, last)
