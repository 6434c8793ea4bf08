"""Snapshots as records: whole or not at all."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import snapshots
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.errors import BadBody, BadFrame, BadValue
from streaminfer.wire.snapshots import Assembler, OtherSpec, iso
from tests.made import flat
from tests.wire.messages import ABOUT, FINGERPRINT, NATURAL, snapshot, snapshot_record

CHUNKED = snapshots.ENVELOPE + 16
"""Two numbers a record."""


def _records(given: Snapshot, max_bytes: int = 1 << 20) -> list[bytes]:
    return [data for _, data in snapshots.encode(given, NATURAL, ABOUT, max_bytes)]


def _assembler(size: int = 3) -> Assembler:
    return Assembler(FINGERPRINT, size)


def _same(a: Snapshot | None, b: Snapshot) -> None:
    assert a is not None
    assert flat(a) == flat(b)


@pytest.mark.parametrize(
    "given",
    [
        snapshot(),
        snapshot(positions={}, score=0.0, created_at=0),
        snapshot(positions=dict.fromkeys(range(1024), 2**63 - 1), version=2**62),
        snapshot(epoch=3, starts={0: 0, 3: 7}, ends={0: 10, 3: 2**41}, n_batches=9, n_steps=4),
        snapshot(starts={0: 10, 3: 2**40}),
        snapshot(created_at=253_402_300_799_999, read_to=2**63 - 1),
    ],
)
def test_one_record_round_trip(given: Snapshot) -> None:
    records = snapshots.encode(given, NATURAL, ABOUT, 1 << 20)
    assert [key for key, _ in records] == [b"manifest"]
    _same(_assembler().add(records[0][1]), given)


def test_times_keep_their_milliseconds() -> None:
    for at in range(1_700_000_000_000, 1_700_000_001_000):
        found = _assembler().add(snapshot_record({"created_at": at}))
        assert found is not None
        assert found.created_at == at
    assert iso(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert iso(0) == "1970-01-01T00:00:00.000Z"


def test_chunks_round_trip_with_the_manifest_last() -> None:
    given = snapshot(statistics=np.arange(7.0))
    records = snapshots.encode(given, NATURAL, ABOUT, CHUNKED)
    assert [key for key, _ in records] == [b"chunk-0", b"chunk-1", b"chunk-2", b"chunk-3", b"manifest"]
    assert max(len(data) for _, data in records) <= CHUNKED
    assembler = _assembler(7)
    found = [assembler.add(data) for _, data in records]
    assert found[:-1] == [None] * 4
    _same(found[-1], given)


def test_the_envelope_holds_the_largest_manifest() -> None:
    given = snapshot(positions=dict.fromkeys(range(1024), 2**62), version=2**62, statistics=np.zeros(4095 * 2))
    passed = dict.fromkeys(range(1024), 2**40)
    again = snapshot(positions=passed, starts=passed, ends=passed, version=2**62, statistics=np.zeros(4095 * 2))
    assert max(map(len, [*_records(given, CHUNKED), *_records(again, CHUNKED)])) <= CHUNKED


def test_an_incomplete_set_gives_nothing() -> None:
    records = _records(snapshot(statistics=np.arange(7.0)), CHUNKED)
    for missing in range(len(records) - 1):
        assembler = _assembler(7)
        assert [assembler.add(data) for i, data in enumerate(records) if i != missing] == [None] * 4


def test_chunks_in_any_order_count_as_long_as_the_manifest_is_last() -> None:
    given = snapshot(statistics=np.arange(5.0))
    *chunks, manifest = _records(given, CHUNKED)
    for order in permutations(chunks):
        assembler = _assembler(5)
        assert [assembler.add(data) for data in order] == [None] * len(chunks)
        _same(assembler.add(manifest), given)


def test_a_manifest_of_other_chunk_versions_gives_nothing() -> None:
    """What compaction leaves while a newer snapshot is being written: new chunks under an old manifest."""
    old, new = (snapshot(statistics=np.full(7, v), version=v) for v in (1, 2))
    before, after = _records(old, CHUNKED), _records(new, CHUNKED)
    assembler = _assembler(7)
    for data in [*before[1:-1], after[0], before[-1]]:
        assert assembler.add(data) is None
    for data in after[1:-1]:
        assert assembler.add(data) is None
    assert assembler.add(before[-1]) is None
    _same(assembler.add(after[-1]), new)


def test_chunks_that_a_shorter_snapshot_no_longer_has_do_no_harm() -> None:
    assembler = _assembler(7)
    for data in _records(snapshot(statistics=np.arange(7.0)), CHUNKED):
        assembler.add(data)
    given = snapshot(version=7, statistics=np.arange(7.0) + 1)
    _same([assembler.add(data) for data in _records(given, CHUNKED + 16)][-1], given)


def test_another_spec_is_told_with_both_fingerprints() -> None:
    with pytest.raises(OtherSpec) as caught:
        Assembler("f" * 16, 3).add(snapshot_record())
    assert str(caught.value) == (
        "the posterior 'demo' on this bus was made by another spec (fingerprint 0123456789abcdef, this one has "
        "ffffffffffffffff): give the spec a new name, or use another bus"
    )


STAMP = "the stamp of a partition must be of the years 1970 to 9999, or -1"
START = "the start of a partition must be before its frontier, or -1"
ENDS = "all partitions must have ends after their starts, or none"
NEGATIVE = "a count or position is negative, or the score is not finite"
BAD: list[tuple[bytes, str]] = [
    (snapshot_record(chunk=-1), "chunk -1 of version 6 cannot be"),
    (snapshot_record(chunk=4096), "chunk 4096 of version 6 cannot be"),
    (snapshot_record(version=0), "chunk 0 of version 0 cannot be"),
    (snapshot_record({"chunk_versions": []}), "0 chunk versions in a manifest that is chunk 0"),
    (snapshot_record({"chunk_versions": [6, 6]}), "2 chunk versions in a manifest that is chunk 0"),
    (snapshot_record({"n_statistics": 2}), "2 statistics, but the model has 3"),
    (snapshot_record({"n_statistics": -1}), "-1 statistics, but the model has 3"),
    (snapshot_record(payload=b""), "a payload of 0 numbers does not hold 3 statistics"),
    (snapshot_record(payload=bytes(16)), "a payload of 2 numbers does not hold 3 statistics"),
    (snapshot_record(payload=bytes(41)), "41 bytes are not the 40 of 5 numbers"),
    (snapshot_record(payload=np.array([1, 2, math.nan], "<f8").tobytes()), "a number is not finite"),
    (snapshot_record(payload=np.array([1, 2, 3, math.inf], "<f8").tobytes()), "a number is not finite"),
    (snapshot_record({"created_at": -1}), "a snapshot cannot be of the time -1"),
    (snapshot_record({"score": math.nan}), NEGATIVE),
    (snapshot_record({"score": math.inf}), NEGATIVE),
    (snapshot_record({"read_to": -1}), NEGATIVE),
    (snapshot_record({"staleness": -1}), NEGATIVE),
    (snapshot_record({"frontier": [{"partition": 0, "position": -1}]}), START),
    (snapshot_record({"frontier": [{"partition": -1, "position": 1}]}), NEGATIVE),
    (snapshot_record({"frontier": [{"partition": 0, "position": 5, "start": 6}]}), START),
    (snapshot_record({"frontier": [{"partition": 0, "position": 5, "start": -2}]}), START),
    (snapshot_record({"frontier": [{"partition": 0, "position": 5, "end": 6}]}), ENDS),
    (snapshot_record({"frontier": [{"partition": 0, "position": 5, "start": 3, "end": 2}]}), ENDS),
    (snapshot_record({"frontier": [{"partition": 0, "position": 5, "start": 3, "end": -2}]}), ENDS),
    (snapshot_record({"frontier": [{"partition": 0, "position": 5, "start": 3, "end": 6},
                                   {"partition": 1, "position": 5, "start": 3}]}), ENDS),
    (snapshot_record({"epoch": -1}), "a pass -1 without ends cannot be"),
    (snapshot_record({"epoch": 1}), "a pass 1 without ends cannot be"),
    (snapshot_record({"frontier": [{"partition": 0, "position": 1, "stamp": -2}]}), STAMP),
    (snapshot_record({"frontier": [{"partition": 0, "position": 1, "stamp": 1 << 60}]}), STAMP),
    *((snapshot_record({name: -1}), NEGATIVE)
      for name in ("n_events", "n_lost", "n_dead_lettered", "n_damped", "n_rejected", "n_dropped")),
]  # fmt: skip


@pytest.mark.parametrize(("record", "text"), BAD)
def test_a_value_out_of_bounds_is_refused(record: bytes, text: str) -> None:
    with pytest.raises(BadValue) as caught:
        _assembler().add(record)
    assert str(caught.value) == text


def test_a_time_beyond_the_calendar_is_refused() -> None:
    value: dict[str, Any] = DECLARED.decode("posterior", snapshot_record())
    for at in (10**15, -(2**62)):
        value["manifest"]["created_at"] = at
        with pytest.raises(BadBody, match="OverflowError"):
            _assembler().add(DECLARED.encode("posterior", value))


def test_a_tombstone_is_no_snapshot() -> None:
    with pytest.raises(BadFrame):
        _assembler().add(None)


def test_no_more_chunks_are_held_than_the_model_could_need() -> None:
    assembler = _assembler()
    chunk = {"version": 1, "payload": bytes(1000), "manifest": None}
    for i in range(131):
        assembler.add(DECLARED.encode("posterior", {**chunk, "chunk": i}))
    with pytest.raises(BadValue, match="chunks of more than 131264 bytes, but the model has 3 statistics"):
        assembler.add(DECLARED.encode("posterior", {**chunk, "chunk": 131}))
    for _ in range(200):
        assembler.add(DECLARED.encode("posterior", {**chunk, "chunk": 5}))
