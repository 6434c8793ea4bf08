"""Records as the bytes of a file: frames with their lengths and checksums, so that half a file is never taken for one.

A file is MAGIC, then frames: what it is about (JSON), each record, and the end with their number. A frame is its
length, the CRC-32 of its payload (both four bytes, big-endian), and the payload.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final

from streaminfer.bus.protocol import BusError, Partition, Record

MAGIC: Final = b"streaminfer records 1\n"
MAX_FRAME: Final = 4 << 20
MAX_PARTITIONS: Final = 1024
END: Final = b"end"
_FRAME: Final = struct.Struct(">II")
_RECORD: Final = struct.Struct(">HIqiI")
"""Topic, partition, timestamp, length of the key (-1: none), number of headers."""
_LENGTH: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct(">Q")


class FileFault(BusError):
    """A file that is not one of records, or not as it was written."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file holds: what it is about, the number of partitions of each topic, and their records in order.

    The offset of a record is its number in its partition.
    """

    about: Mapping[str, Any]
    topics: Mapping[str, int]
    records: Mapping[Partition, tuple[Record, ...]]


def contents_of(about: Mapping[str, Any], topics: Mapping[str, int], records: Iterable[Record]) -> Contents:
    """What a file would hold of records, whose order is that of their partitions."""
    found: dict[Partition, list[Record]] = {}
    for record in records:
        log = found.setdefault(record.partition, [])
        log.append(replace(record, offset=len(log)))
    return Contents(about, topics, {partition: tuple(log) for partition, log in found.items()})


def encoded(about: Mapping[str, Any], topics: Mapping[str, int], records: Iterable[Record]) -> Iterator[bytes]:
    """The bytes of a file, piece by piece. Every record must have a value, and be of one of the topics."""
    numbers, n_records = {name: i for i, name in enumerate(topics)}, 0
    yield MAGIC
    yield _framed(json.dumps({"about": about, "topics": topics}, ensure_ascii=False).encode())
    for record in records:
        yield _framed(_packed(numbers[record.partition.topic], record))
        n_records += 1
    yield _framed(END + _COUNT.pack(n_records))


def _framed(payload: bytes) -> bytes:
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def _packed(topic: int, record: Record) -> bytes:
    key = record.key
    head = _RECORD.pack(
        topic, record.partition.index, record.timestamp, -1 if key is None else len(key), len(record.headers)
    )
    headers = [part for name, value in record.headers for part in (_text(name.encode()), _text(value))]
    return b"".join([head, key or b"", *headers, record.value or b""])


def _text(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def read(path: Path) -> Contents:
    """What a file holds; raises FileFault that says what is wrong with it, and OSError if it cannot be opened."""
    with path.open("rb") as file:
        try:
            return _contents(file)
        except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FileFault(f"{path}: not a file of records, or damaged: {error}. Write it again") from error


def _contents(file: IO[bytes]) -> Contents:
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin as one")
    head = json.loads(_frame(file))
    topics = dict(head["topics"].items())
    if not all(type(count) is int and 0 < count <= MAX_PARTITIONS for count in topics.values()):
        raise ValueError("a topic has no partition, or too many")
    names, records = list(topics), list[Record]()
    while (payload := _frame(file))[: len(END)] != END or len(payload) != len(END) + _COUNT.size:
        records.append(_unpacked(payload, names, topics))
    if _COUNT.unpack(payload[len(END) :])[0] != len(records) or file.read(1):
        raise ValueError("its records are not as many as were written")
    return contents_of(dict(head["about"]), topics, records)


def _frame(file: IO[bytes]) -> bytes:
    length, checksum = _FRAME.unpack(file.read(_FRAME.size))
    if length > MAX_FRAME:
        raise ValueError(f"a frame of {length} bytes is more than the {MAX_FRAME} allowed")
    payload = file.read(length)
    if len(payload) != length:
        raise ValueError("it ends too early")
    if zlib.crc32(payload) != checksum:
        raise ValueError("a checksum is wrong")
    return payload


def _unpacked(payload: bytes, names: list[str], topics: Mapping[str, int]) -> Record:
    topic, index, timestamp, key_length, n_headers = _RECORD.unpack_from(payload)
    if topic >= len(names) or index >= topics[names[topic]]:
        raise ValueError("a record of a partition that is not there")
    at, key = _RECORD.size, None
    if key_length >= 0:
        key, at = payload[at : at + key_length], at + key_length
    headers: list[tuple[str, bytes]] = []
    for _ in range(n_headers):
        name, at = _taken(payload, at)
        value, at = _taken(payload, at)
        headers.append((name.decode(), value))
    if at > len(payload):
        raise ValueError("a record is longer than its frame")
    return Record(Partition(names[topic], index), 0, timestamp, key, payload[at:], tuple(headers))


def _taken(payload: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _LENGTH.unpack_from(payload, at)
    at += _LENGTH.size
    if at + length > len(payload):
        raise ValueError("a header is longer than its frame")
    return payload[at : at + length], at + length
