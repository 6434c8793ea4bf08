"""Batches of other producers: every codec, with a bound, and nothing in them that stops a reader."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.codec import snappy_encode
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from streaminfer.bus.broker.fetching import batches, expanding, reader
from streaminfer.bus.broker.fetching.batches import MAX_EXPANDED, BoundedBatch, Unread

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LIMIT = 100_000
COMPRESSORS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (1, gzip.compress),
    "gzip, two members": (1, lambda data: gzip.compress(data[:1000]) + gzip.compress(data[1000:])),
    "snappy": (2, snappy.compress),
    "snappy in blocks": (2, snappy_encode),
    "lz4": (3, lz4.frame.compress),
    "lz4, two frames": (3, lambda data: lz4.frame.compress(data[:1000]) + lz4.frame.compress(data[1000:])),
    "zstd": (4, zstandard.compress),
    "zstd, two frames": (4, lambda data: zstandard.compress(data[:1000]) + zstandard.compress(data[1000:])),
}
EACH = pytest.mark.parametrize("name", COMPRESSORS)


def _batch(values: list[bytes], codec: int = 0, headers: list[tuple[str, bytes]] | None = None) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
    for i, value in enumerate(values):
        builder.append(i, 1000 + i, b"key", value, headers or [])
    return bytes(builder.build())


def _at(data: bytes, base: int) -> bytes:
    """The same batch at another place in the log, which its checksum does not cover."""
    return struct.pack(">q", base) + data[8:]


def _read(data: bytes) -> list[tuple[int, bytes]]:
    return [(record.offset, record.value) for record in BoundedBatch(data)]


@EACH
def test_what_is_expanded_is_what_was_compressed(name: str) -> None:
    codec, compress = COMPRESSORS[name]
    data = bytes(range(256)) * 100 + b"x" * (LIMIT - 25_600)
    assert len(data) == LIMIT
    assert expanding.EXPANDERS[codec][1](compress(data), LIMIT) == data


@EACH
def test_one_byte_more_than_the_limit_is_too_big(name: str) -> None:
    codec, compress = COMPRESSORS[name]
    with pytest.raises(expanding.TooBig):
        expanding.EXPANDERS[codec][1](compress(b"x" * (LIMIT + 1)), LIMIT)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_half_a_batch_and_one_that_begins_with_junk_are_unread(codec: str) -> None:
    good = _batch([bytes(range(256)) * 10] * 40, CODECS[codec])
    for broken in (good[: 61 + (len(good) - 61) // 2], good[:61] + b"junk" + good[65:]):
        *_, (_, value) = _read(broken)
        assert isinstance(value, Unread)
        assert bytes(value) == broken


def test_kafka_python_reads_batches_so() -> None:
    assert reader.batches is batches
    assert isinstance(next(MemoryRecords(_batch([b"a"]))), BoundedBatch)


@pytest.mark.parametrize("codec", CODECS.values(), ids=list(CODECS))
def test_good_batches_are_read_as_kafka_python_reads_them(codec: int) -> None:
    data = _at(_batch([b"%d" % i * 50 for i in range(300)], codec, [("h", b"v")]), 70)
    ours, theirs = list(BoundedBatch(data)), list(DefaultRecordBatch(data))
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in ours] == [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs
    ]
    assert ours[0].offset == 70


@pytest.mark.parametrize("codec", [c for c in CODECS.values() if c], ids=[n for n in CODECS if n != "none"])
def test_a_batch_that_expands_too_far_is_one_unread_record_with_its_bytes(codec: int) -> None:
    data = _at(_batch([b"\0" * (MAX_EXPANDED // 4)] * 5, codec), 1000)
    ((offset, value),) = _read(data)
    assert (offset, bytes(value)) == (1000, data)
    assert isinstance(value, Unread)
    assert value.reason.startswith(
        "a batch of 5 records, offsets 1000 to 1004, that cannot be read from 1000 on: it exp"
    )
    assert value.reason.endswith("to more than 64 MiB")


def test_a_batch_that_cannot_be_expanded_is_one_unread_record() -> None:
    data = bytearray(_batch([b"a" * 500] * 3, CODECS["gzip"]))
    data[61] ^= 0xFF
    ((offset, value),) = _read(bytes(data))
    assert (offset, bytes(value), type(value)) == (0, bytes(data), Unread)
    unknown = bytearray(_batch([b"a"]))
    unknown[22] |= 0x07
    ((_, value),) = _read(bytes(unknown))
    assert "codec 7" in value.reason  # type: ignore[attr-defined]


def test_a_header_whose_name_is_no_text_spoils_its_record_only() -> None:
    data = _batch([b"a", b"b", b"c"], headers=[("name", b"v")])
    first = data.index(b"name", data.index(b"name") + 1)
    spoilt = data[:first] + b"\xff\xfe\xff\xfe" + data[first + 4 :]
    found = _read(spoilt)
    assert [offset for offset, _ in found] == [0, 1, 2]
    assert [type(value) for _, value in found] == [bytes, Unread, bytes]
    assert b"\xff\xfe\xff\xfe" in found[1][1]
    assert found[1][1].reason.startswith("a record that cannot be read: ")  # type: ignore[attr-defined]


def test_records_before_one_of_wrong_length_are_read_and_the_rest_is_told_once() -> None:
    data = bytearray(_batch([b"a" * 20, b"b" * 20, b"c" * 20]))
    second = data.index(b"key", data.index(b"key") + 1)
    data[second - 5] = 0xFE  # its length, now of two bytes and far too long
    found = _read(bytes(data))
    assert [(offset, type(value)) for offset, value in found] == [(0, bytes), (1, Unread)]
    assert "from 1 on" in found[1][1].reason  # type: ignore[attr-defined]


def test_a_batch_that_compaction_has_emptied_has_no_record() -> None:
    for codec in CODECS.values():
        data = bytearray(_batch([b"a"], codec)[:61])
        data[22] = data[22] & 0xF8 | codec
        data[57:61] = struct.pack(">i", 0)
        assert _read(bytes(data)) == []


def _told(record: Any) -> tuple[object, ...]:
    """All that is asked of a record; also the reason if it cannot be read."""
    stated = (record.size_in_bytes, record.offset, record.timestamp, record.timestamp_type, record.checksum)
    reason = getattr(record.value, "reason", None)
    return (*stated, record.key, record.value, type(record.value), reason, list(record.headers), record.validate_crc())


def _one_by_one(data: bytes) -> list[tuple[object, ...]]:
    """The records as kafka-python's own code takes them apart."""
    batch = BoundedBatch(data)
    batch._maybe_uncompress()
    found = []
    with suppress(StopIteration):
        while True:
            found.append(_told(next(batch)))
    return found


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 40_000),
        st.none() | st.sampled_from([0, 1, 63, 64, 8191, 8192]),
        st.none() | st.sampled_from([0, 1, 63, 64, 141, 8191, 8192, 20_000]),
        st.sampled_from([[], [], [], [("h", b"v")], [("h", None)]]),
    ),
    min_size=1,
    max_size=6,
)


@settings(deadline=None, max_examples=300)
@given(
    RECORDS, st.sampled_from([1, 70, 9000]), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3)
)
def test_records_in_one_loop_are_those_that_kafka_python_takes_apart_one_by_one(
    records: list[tuple[int, int | None, int | None, list[tuple[str, bytes | None]]]],
    step: int,
    changes: list[tuple[int, int]],
) -> None:
    """With numbers of one, two and three bytes, with and without headers, and with some bytes changed."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 30)
    for i, (time, key, value, headers) in enumerate(records):
        parts = [None if size is None else b"\x81" * size for size in (key, value)]
        builder.append(i * step, 1000 + time, *parts, headers)
    data = bytearray(builder.build())
    for place, byte in changes:
        data[61 + place % (len(data) - 61)] = byte
    assert [_told(record) for record in BoundedBatch(bytes(data))] == _one_by_one(bytes(data))


def test_any_byte_of_plain_records_may_be_wrong() -> None:
    """Every place is tried, also those that a search by chance rarely meets, such as a record's attributes."""
    good = _batch([b"a" * 9, b"b" * 70, b"c" * 9])
    for i in range(61, len(good)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            changed = good[:i] + bytes([value]) + good[i + 1 :]
            assert [_told(record) for record in BoundedBatch(changed)] == _one_by_one(changed)


def test_where_the_log_gives_the_times_all_records_have_that_of_the_batch() -> None:
    data = bytearray(_at(_batch([b"a", b"b"]), 5))
    data[22] |= 0x08
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in BoundedBatch(bytes(data))] == [
        (5, 1001, 1),
        (6, 1001, 1),
    ]
    assert [_told(record) for record in BoundedBatch(bytes(data))] == _one_by_one(bytes(data))


def test_any_single_byte_may_be_wrong() -> None:
    """Then something of it cannot be read, and that is told; it is never an exception."""
    good = _batch([b"a" * 9, b"b" * 9, b"c" * 9], headers=[("n", b"v")])
    for i in range(61, len(good)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            offsets = [offset for offset, _ in _read(good[:i] + bytes([value]) + good[i + 1 :])]
            assert 1 <= len(offsets) <= 3
