"""One key of a snapshot as a record. Its record key says which, so that a reader of one key passes over the others."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.keys import MAX_BYTES as MAX_KEY
from streaminfer.models.model import Matrix
from streaminfer.variational.arena import Entry
from streaminfer.wire import vectors
from streaminfer.wire.avro import DECLARED, Schemas, unframed
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.key_columns import LATEST_MS
from streaminfer.wire.snapshots import TOPIC

PREFIX: Final = b"key/"
NUMBERS: Final = 4
"""Before the statistics: events, newest record's timestamp, effective events, newest event's time."""
_MAX_RECORD: Final = 1 << 20


class RowPlace(NamedTuple):
    """What a record key says: a key and the clock that its events count by, 0 if there is one for all."""

    label: bytes
    clock: int


def record_key(label: bytes, clock: int) -> bytes:
    return b"%s%d/%s" % (PREFIX, clock, label)


def place_of(key: bytes | None) -> RowPlace | None:
    """The key that a record is of; None of a chunk or a manifest. Raises BadValue."""
    if key is None or not key.startswith(PREFIX):
        return None
    clock, slash, label = key[len(PREFIX) :].partition(b"/")
    if not slash or not clock.isdigit() or len(clock) > 7 or not 1 <= len(label) <= MAX_KEY:
        raise BadValue(f"the record key {key[:40]!r} does not belong to a key")
    return RowPlace(label, int(clock))


def encode(entry: Entry, version: int, schemas: Schemas = DECLARED) -> bytes:
    """The record of one key: what an Avro library would write, put together from its few parts."""
    head = struct.pack("<4d", entry.n_events, entry.stamp, entry.n_effective, entry.newest)
    payload = head + vectors.pack(entry.statistics)
    framing = b"\0" + schemas.id_of(TOPIC).to_bytes(4, "big")
    return b"".join((framing, _long(version), _before(len(payload)), payload, _after(entry.label)))


def _before(width: int) -> bytes:
    """What stands before a payload: chunk 0, the payload's length."""
    return b"\0" + _long(width)


def _after(label: bytes) -> bytes:
    """What stands after it: no manifest, the key."""
    return b"\0\2" + _long(len(label)) + label


class Decoded(NamedTuple):
    """Records of keys: their versions, and the numbers (k, NUMBERS + size) of each."""

    versions: list[int]
    numbers: Matrix


class _Form:
    """What all records of the keys of a posterior have in common."""

    def __init__(self, size: int, schemas: Schemas) -> None:
        self._width = 8 * (NUMBERS + size)
        self._before, self._ids, self._schemas = _before(self._width), schemas.ids_of(TOPIC), schemas

    def parsed(self, label: bytes, value: bytes) -> tuple[int, bytes]:
        """The version and the payload of one; raises WireError."""
        _, found = unframed(value, _MAX_RECORD)
        after = _after(label)
        end = len(value) - len(after)
        begin = end - self._width
        middle = begin - len(self._before)
        fits = middle > 5 and value[middle:begin] == self._before and value[end:] == after
        if found not in self._ids:
            raise self._schemas.other(TOPIC, found)
        if not fits:
            raise BadValue(f"schema id {found}, {len(value)} bytes: not a record of the key {label[:40]!r}")
        return _version(value[5:middle]), value[begin:end]


def decode(labels: Sequence[bytes], values: Sequence[bytes], size: int, schemas: Schemas = DECLARED) -> Decoded:
    """Many records at once; raises WireError if one is not of its key.

    They are all of one form, so that all but the version is compared with what it must be instead of being parsed.
    """
    form = _Form(size, schemas)
    versions, payloads = [], []
    for label, value in zip(labels, values, strict=True):
        version, payload = form.parsed(label, value)
        versions.append(version)
        payloads.append(payload)
    numbers = vectors.join(payloads, len(payloads) * (NUMBERS + size)).reshape(len(payloads), -1)
    _check(numbers)
    return Decoded(versions, numbers)


class Versions:
    """Says how new rows are, by their form alone: for a reader that passes over very many of them."""

    def __init__(self, size: int, schemas: Schemas = DECLARED) -> None:
        self._form = _Form(size, schemas)

    def of(self, key: bytes | None, value: bytes | None) -> int:
        """The version of a row; 0 of a tombstone, and of what is not a row."""
        try:
            place = place_of(key)
        except WireError:
            return 0
        return 0 if place is None or value is None else self.at(place, value)

    def at(self, place: RowPlace, value: bytes) -> int:
        """The version of a row whose place is known; 0 of what is not a row."""
        try:
            return self._form.parsed(place.label, value)[0]
        except WireError:
            return 0


def _check(numbers: Matrix) -> None:
    counts, stamps, n_effective = numbers[:, 0], numbers[:, 1], numbers[:, 2]
    good: NDArray[np.bool_] = (counts >= 1) & (counts == np.floor(counts)) & (n_effective >= 0)
    if not (good & (stamps >= 0) & (stamps <= LATEST_MS)).all():
        raise BadValue("a key has a count of events or a timestamp that cannot be")


@lru_cache(maxsize=1024)
def _long(number: int) -> bytes:
    """Avro's number of variable length, for what is not negative."""
    number, out = number << 1, b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


@lru_cache(maxsize=1024)
def _version(data: bytes) -> int:
    number = sum((byte & 0x7F) << (7 * i) for i, byte in enumerate(data))
    if len(data) > 10 or _long(number >> 1) != data:
        raise BadValue("a version that cannot be")
    return number >> 1
