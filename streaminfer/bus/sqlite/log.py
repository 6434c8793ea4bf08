"""The logs: outputs become rows, rows become records."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streaminfer.bus.declaration import LARGEST_RECORD
from streaminfer.bus.partitioner import partition_of
from streaminfer.bus.protocol import BusError, OutOfRange, Output, Partition, Slice, TooLarge
from streaminfer.bus.sqlite import headers, rows
from streaminfer.bus.sqlite.catalog import Catalog, Entry
from streaminfer.bus.sqlite.schema import OFFSET_BITS

MAX_POLL_BYTES = LARGEST_RECORD
CHUNK = 64

_READ = "SELECT id, timestamp, key, headers, value, checksum FROM log WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"

Row = tuple[int, bytes | None, bytes | None, bytes | None]
"""Timestamp, key, headers and value, as they stand in the table."""


class Batch(NamedTuple):
    """Outputs made ready before the lock is taken: each one's partition id, row and checksum."""

    partitions: list[int]
    rows: list[Row]
    checksums: list[int]


class Want(NamedTuple):
    """A partition to be read, its id in the file and the position to read from."""

    partition: Partition
    id: int
    position: int


class Outbox:
    """Turns outputs into batches; keyless outputs take the partitions of a topic in turn."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._turns: dict[str, int] = {}

    def prepare(self, outputs: Iterable[Output], now_ms: int) -> Batch:
        """Raises UnknownTopic, TooLarge, or BusError for a compacted topic's record without key."""
        batch = Batch([], [], [])
        entries: dict[str, Entry] = {}
        for output in outputs:
            entry = entries.get(output.topic)
            if entry is None:
                entry = entries[output.topic] = self._catalog.entry(output.topic)
            packed = headers.encode(output.headers) if output.headers else None
            _check(output, entry, packed)
            batch.partitions.append(self._choose(output, entry))
            timestamp = now_ms if output.timestamp is None else output.timestamp
            batch.rows.append((timestamp, output.key, packed, output.value))
        return batch._replace(checksums=rows.checksums(*zip(*batch.rows, strict=True))) if batch.rows else batch

    def _choose(self, output: Output, entry: Entry) -> int:
        if output.partition is not None:
            if 0 <= output.partition < len(entry.ids):
                return entry.ids[output.partition]
            return self._catalog.id_of(Partition(output.topic, output.partition))
        if output.key is not None:
            return entry.ids[partition_of(output.key, len(entry.ids))]
        turn = self._turns.get(output.topic, 0)
        self._turns[output.topic] = turn + 1
        return entry.ids[turn % len(entry.ids)]


def _check(output: Output, entry: Entry, packed: bytes | None) -> None:
    key, value = output.key, output.value
    size = (len(key) if key else 0) + (len(packed) if packed else 0) + (len(value) if value else 0)
    if size > entry.topic.max_bytes:
        raise TooLarge(
            f"a record for {output.topic!r} has {size} bytes, the topic accepts at most {entry.topic.max_bytes}"
        )
    if output.key is None and entry.topic.cleanup == "compact":
        raise BusError(f"topic {output.topic!r} is compacted: every record must have a key")


def append(connection: sqlite3.Connection, batch: Batch) -> list[int]:
    """Writes a batch and returns its offsets. Offsets come from the stored counter, so none is ever given twice."""
    nexts: dict[int, int] = {}
    for id_ in set(batch.partitions):
        (nexts[id_],) = connection.execute("SELECT next_offset FROM partitions WHERE id = ?", (id_,)).fetchone()
    offsets: list[int] = []
    for id_ in batch.partitions:
        offset = nexts[id_]
        nexts[id_] = offset + 1
        offsets.append(offset)
    connection.executemany(
        "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)",
        [
            (id_ << OFFSET_BITS | offset, *row, checksum)
            for id_, offset, row, checksum in zip(batch.partitions, offsets, batch.rows, batch.checksums, strict=True)
        ],
    )
    connection.executemany(
        "UPDATE partitions SET next_offset = ? WHERE id = ?", [(offset, id_) for id_, offset in nexts.items()]
    )
    return offsets


def bounds(connection: sqlite3.Connection, id_: int) -> tuple[int, int]:
    """The first position of a partition's log and the one after its last record."""
    start, end = connection.execute("SELECT start_offset, next_offset FROM partitions WHERE id = ?", (id_,)).fetchone()
    return start, end


def fetch(connection: sqlite3.Connection, wants: Sequence[Want], max_records: int) -> list[Slice]:
    """Reads on from each position, in the order given; what one partition leaves of its share goes to those after it.

    Raises OutOfRange before anything is read.
    """
    behind: list[tuple[Want, int]] = []
    for want in wants:
        start, end = bounds(connection, want.id)
        if not start <= want.position <= end:
            raise OutOfRange(want.partition, want.position, start, end)
        if want.position < end:
            behind.append((want, end))
    slices: list[Slice] = []
    records_left, bytes_left = max_records, MAX_POLL_BYTES
    for served, (want, end) in enumerate(behind):
        if records_left <= 0 or bytes_left <= 0:
            break
        sharers = len(behind) - served
        share = max(1, records_left // sharers)
        # A first record beyond its share is still taken if the whole poll has room, else no partition might ever move.
        room = MAX_POLL_BYTES if not slices else bytes_left
        found, size = _read(connection, want, end, max_records=share, max_bytes=bytes_left // sharers, room=room)
        if found is None:
            continue
        slices.append(found)
        records_left -= len(found.records)
        bytes_left -= size
    return slices


def _read(
    connection: sqlite3.Connection, want: Want, end: int, *, max_records: int, max_bytes: int, room: int
) -> tuple[Slice | None, int]:
    """At most `max_records` and `max_bytes` of one partition, but a first record that fits in `room`; and the size."""
    base = want.id << OFFSET_BITS
    cursor = connection.execute(_READ, (base + want.position, base + end, max_records))
    taken: list[rows.Stored] = []
    used = 0
    cut = False
    # In chunks: each is summed at once, and no more than one is in memory beyond what the bytes allow.
    while not cut and (chunk := cursor.fetchmany(CHUNK)):
        size = sum(map(rows.size, chunk))
        if used + size > max_bytes:
            chunk, size = _fitting(chunk, max_bytes - used, room=0 if taken else room)
            cut = True
        taken += chunk
        used += size
    if cut and not taken:
        return None, 0
    if cut or len(taken) == max_records:
        end = taken[-1][0] - base + 1
    return Slice(want.partition, want.position, end, rows.records(want.partition, base, taken)), used


def _fitting(chunk: Sequence[rows.Stored], left: int, room: int) -> tuple[list[rows.Stored], int]:
    """The first rows that fit in `left` bytes, or one that fits in `room`; and their size."""
    taken: list[rows.Stored] = []
    used = 0
    for row in chunk:
        size = rows.size(row)
        if used + size > (left if taken else max(left, room)):
            break
        taken.append(row)
        used += size
    return taken, used
