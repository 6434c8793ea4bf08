"""Draws as records: they round-trip in one record or in parts, and what cannot be is refused."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from streaminfer.sampling.draws import Draws
from streaminfer.sampling.units import Unit
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadFrame, BadValue, WireError
from streaminfer.wire.sampled import draws as wire
from streaminfer.wire.sampled.draws import Assembler, Received, RecordKey, place_of
from tests.wire.chain_messages import FRONTIER, SIZE, UNIT, draws, draws_record, tightest
from tests.wire.messages import FINGERPRINT

NONE = np.zeros(0)
EMPTY: dict[str, Any] = {"values": np.zeros((0, SIZE)), "weights": NONE, "log_density": NONE}
TIGHT = tightest(lambda max_bytes: wire.encode(draws(**EMPTY), 5, 9, max_bytes))
"""Bytes of a record with room for one number."""


def assembler(size: int = SIZE, **changes: Any) -> Assembler:
    return Assembler(FINGERPRINT, UNIT, size, **changes)


def same(found: Draws, given: Draws) -> None:
    for field in fields(Draws):
        one, other = getattr(found, field.name), getattr(given, field.name)
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
            assert one.shape == other.shape
        else:
            assert one == other, field.name


def received(given: Draws, max_bytes: int = 1 << 20, size: int = SIZE) -> list[Received | None]:
    held = assembler(size)
    records = wire.encode(given, UNIT.number, 9, max_bytes)
    assert all(len(key) + len(data) <= max_bytes for key, data in records)
    assert len({key for key, _ in records}) == len(records), "a compacted topic keeps one record of a key"
    return [held.add(key, data) for key, data in records]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"log_density": NONE},
        {"phase": "done", "end": 149},
        {"phase": "warmup", "begin": 0, "end": 64, **EMPTY},
        {"phase": "setup", "begin": 0, "end": 0, "size": 0.0, "noise": 0.0, **EMPTY},
        {"phase": "cut", **EMPTY, "frontier": (), "n_events": 0, "score": 0.0, "n_scored": 0},
    ],
)
@pytest.mark.parametrize("max_bytes", [1 << 20, TIGHT, TIGHT + 31])
def test_a_block_round_trips(changes: dict[str, Any], max_bytes: int) -> None:
    given = draws(**changes)
    *before, last = received(given, max_bytes)
    assert before == [None] * len(before)
    assert last is not None
    assert last.place == RecordKey(5, 4, 9)
    same(last.draws, given)


@pytest.mark.parametrize("max_bytes", [TIGHT + 16, 3000, 100_000])
@pytest.mark.parametrize("known", [True, False])
def test_a_block_in_parts_round_trips(max_bytes: int, known: bool) -> None:
    rng = np.random.default_rng(3)
    values, weights = rng.normal(size=(50, 400)), rng.uniform(1, 2, 50)
    density = rng.normal(size=50) if known else NONE
    given = draws(values=values, weights=weights, log_density=density, end=1000, thin=1)
    *before, last = received(given, max_bytes, size=400)
    assert len(before) >= 1
    assert before == [None] * len(before)
    assert last is not None
    same(last.draws, given)


def test_rows_of_a_transposed_matrix_are_written_as_rows() -> None:
    given = draws(values=np.asfortranarray(draws().values))
    (last,) = received(given)
    assert last is not None
    same(last.draws, given)


@pytest.mark.parametrize("field", ["values", "weights", "log_density"])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_nothing_that_is_not_finite_is_written(field: str, number: float) -> None:
    bad = np.array(getattr(draws(), field))
    bad.flat[1] = number
    with pytest.raises(BadValue, match="a number of a draw is not finite"):
        wire.encode(draws(**{field: bad}), 5, 9, 1 << 20)


def test_a_record_without_room_for_numbers_is_an_error() -> None:
    with pytest.raises(BadValue, match="no room for numbers"):
        wire.encode(draws(), 5, 9, TIGHT - 1)


def test_more_parts_than_there_may_be_are_refused() -> None:
    given = draws(values=np.zeros((30, 1000)), weights=np.ones(30), log_density=NONE)
    with pytest.raises(BadValue, match="a block of 30030 records is more than the 10000 that there may be"):
        wire.encode(given, 5, 9, TIGHT + 7)


@pytest.mark.parametrize(
    ("key", "place"),
    [
        (b"5/4/9", RecordKey(5, 4, 9)),
        (b"0/0/0", RecordKey(0, 0, 0)),
        (b"5/4/9/12", RecordKey(5, 4, 9, 12)),
        (b"5/4/9/0", None),
        (b"5/4", None),
        (b"5/4/9/", None),
        (b"05/4/9", None),
        (b"5/-1/9", None),
        (b"5/4/9/10000", None),
        (b"9999999999/4/9", None),
        (b"5/4/9999999999999999", None),
        (b" 5/4/9", None),
        (b"5/4/9\n", None),
        ("5/4/\N{ARABIC-INDIC DIGIT THREE}".encode(), None),
        (b"", None),
        (None, None),
    ],
)
def test_keys(key: bytes | None, place: RecordKey | None) -> None:
    assert place_of(key) == place
    assert place is None or place.key == key


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"fingerprint": "x" * 1000}, f"fingerprint must be {FINGERPRINT} (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"subposterior": 0}, "chain must be 2 of subposterior 1 (got (0, 2))"),
    ({"chain": 1}, "chain must be 2 of subposterior 1 (got (1, 1))"),
    ({"segment": 3}, "segment must be that of the key (got 3)"),
    ({"phase": "x" * 1000}, "phase must be one of setup, warmup, draws, done, cut (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"phase": "waiting"}, "phase must be one of setup, warmup, draws, done, cut (got 'waiting')"),
    ({"phase": "warmup"}, "n_draws must be 0 if the phase is warmup (got 2)"),
    ({"begin": -1}, "begin must be 0 to 2^53 (got -1)"),
    ({"begin": 149}, "end must not be below 149 (got 148)"),
    ({"end": 2**60}, f"end must be 0 to 2^53 (got {2**60})"),
    ({"end": 138}, "n_draws must be 0 to the 1 of so many steps (got 2)"),
    ({"thin": 0}, "thin must be 1 or more (got 0)"),
    ({"thin": 20}, "n_draws must be 0 to the 1 of so many steps (got 2)"),
    ({"size": -1.0}, "size must be 0 or more, and finite (got -1.0)"),
    ({"size": math.nan}, "size must be 0 or more, and finite (got nan)"),
    ({"noise": math.inf}, "noise must be 0 or more, and finite (got inf)"),
    ({"n_accepted": 65}, "n_accepted must be at most the 64 proposals (got 65)"),
    ({"n_accepted": -1}, "n_accepted must be 0 to 2^53 (got -1)"),
    ({"n_proposed": -1}, "n_proposed must be 0 to 2^53 (got -1)"),
    ({"n_likelihood": -1}, "n_likelihood must be 0 to 2^53 (got -1)"),
    ({"n_gradient": 2**60}, f"n_gradient must be 0 to 2^53 (got {2**60})"),
    ({"n_setup": -1}, "n_setup must be 0 to 2^53 (got -1)"),
    ({"n_undone": -1}, "n_undone must be 0 to 2^53 (got -1)"),
    ({"n_read": -1}, "n_read must be 0 to 2^53 (got -1)"),
    ({"n_events": 101}, "n_events must be 0 to the 100 that the frontier has room for (got 101)"),
    ({"n_events": -1}, "n_events must be 0 to the 100 that the frontier has room for (got -1)"),
    ({"n_dead_lettered": -1}, "n_dead_lettered must be 0 to 2^53 (got -1)"),
    ({"n_lost": -1}, "n_lost must be 0 to 2^53 (got -1)"),
    ({"n_scored": -1}, "n_scored must be 0 to 2^53 (got -1)"),
    ({"n_scored": 0}, "score must be within 0 of 0 (got -31.5)"),
    ({"score": math.nan}, "score must be within 2e+101 of 0 (got nan)"),
    ({"n_draws": -1}, "n_draws must be 0 to the 2 of so many steps (got -1)"),
    ({"n_draws": 2**31 - 1, "end": 2**53}, f"n_draws must be 0 to the 100000 of so many steps (got {2**31 - 1})"),
    ({"n_draws": 1, "n_log_density": 1}, "values must have at most 24 bytes (got 48)"),
    ({"n_log_density": 1}, "n_log_density must be 0 or the 2 draws (got 1)"),
    ({"n_log_density": 0}, "16 bytes are not the 0 of 0 numbers"),
    ({"parts": 0}, "parts must be 1 to 10 (got 0)"),
    ({"parts": 11}, "parts must be 1 to 10 (got 11)"),
    ({"part": 1, "parts": 2}, "part must be that of the key (got 1)"),
    ({"part": -1}, "part must be that of the key (got -1)"),
    ({"values": bytes(40)}, "40 bytes are not the 48 of 6 numbers"),
    ({"values": bytes(56)}, "values must have at most 48 bytes (got 56)"),
    ({"values": np.full(6, math.nan).tobytes()}, "a number is not finite"),
    ({"weights": bytes(8)}, "8 bytes are not the 16 of 2 numbers"),
    ({"weights": np.array([0, -1.0]).tobytes()}, "weights must be 0 to 1e+100 (got [0.0, -1.0])"),
    ({"weights": np.array([1, 1e101]).tobytes()}, "weights must be 0 to 1e+100 (got [1.0, 1e+101])"),
    ({"weights": np.array([1, math.inf]).tobytes()}, "a number is not finite"),
    ({"log_density": np.array([1, math.nan]).tobytes()}, "a number is not finite"),
]
SPANS: list[tuple[list[tuple[int, int, int]], str]] = [
    ([(3, 0, 100), (1, 0, 100)], "frontier must have different partitions in rising order (got 1)"),
    ([(3, 0, 100), (3, 0, 100)], "frontier must have different partitions in rising order (got 3)"),
    ([(-1, 0, 100)], "frontier must have different partitions in rising order (got -1)"),
    ([(2, 0, 100)], "frontier must have partitions of the subposterior (got 2)"),
    ([(1, -1, 100)], "frontier must have 0 <= start <= end <= 2^53 (got (-1, 100))"),
    ([(1, 100, 99)], "frontier must have 0 <= start <= end <= 2^53 (got (100, 99))"),
    ([(1, 0, 2**60)], f"frontier must have 0 <= start <= end <= 2^53 (got (0, {2**60}))"),
]
WRONG += [({"frontier": [{"partition": p, "start": a, "end": b} for p, a, b in spans]}, text) for spans, text in SPANS]


@pytest.mark.parametrize(("changes", "text"), WRONG, ids=lambda value: str(value)[:40])
def test_draws_that_cannot_be_are_refused(changes: dict[str, Any], text: str) -> None:
    held = assembler()
    with pytest.raises(BadValue) as caught:
        held.add(*draws_record(**changes))
    assert str(caught.value) == text
    assert held.add(*draws_record()) is not None, "the next block is not refused"


def test_every_field_is_refused_in_one_way_at_least() -> None:
    value = DECLARED.decode(wire.TOPIC, draws_record()[1])
    assert {name for changes, _ in WRONG for name in changes} == value.keys()


def test_more_events_than_positions_where_a_record_has_many() -> None:
    assert assembler(max_events=10).add(*draws_record(n_events=1000)) is not None
    with pytest.raises(BadValue, match="1000 that the frontier has room for"):
        assembler(max_events=10).add(*draws_record(n_events=1001))


@pytest.mark.parametrize("key", [b"4/4/9", b"manifest", b"", None])
def test_keys_of_others_are_refused(key: bytes | None) -> None:
    for data in (draws_record()[1], None):
        with pytest.raises(BadValue, match="the key must be 5/segment/block"):
            assembler().add(key, data)


def test_bytes_that_are_not_draws_are_refused() -> None:
    key, data = draws_record()
    for each in (b"", b"\x00", data[:-1], data + b"\x00", b"\x01" + data[1:], bytes(2 << 20)):
        with pytest.raises(WireError):
            assembler().add(key, each)
    with pytest.raises(BadFrame, match="schema id 6 is not the 10 or 18 of this topic"):
        assembler().add(key, data[:4] + b"\x06" + data[5:])


def test_a_registrys_id_is_written_and_read() -> None:
    schemas = Schemas({wire.TOPIC: 77})
    ((key, data),) = wire.encode(draws(), 5, 9, 1 << 20, schemas)
    assert data[:5] == b"\x00\x00\x00\x00\x4d"
    assert assembler(schemas=schemas).add(key, data) is not None


def _parts(block: int = 9, **changes: Any) -> list[tuple[bytes, bytes]]:
    records = wire.encode(draws(**changes), 5, block, TIGHT + 24)
    assert len(records) == 3
    return records


def test_parts_out_of_turn_make_nothing() -> None:
    one, other = _parts(), _parts(10, begin=148, end=168)
    for given in ([*one[:-1], *other], [*one[1:], *other], [one[0], one[2], one[1], *other]):
        found = [held for held in map(assembler().add, *zip(*given, strict=True)) if held is not None]
        assert [each.place.block for each in found] == [10]


def test_a_part_of_another_write_is_not_mixed_in() -> None:
    one, other = _parts(), _parts(n_scored=21)
    held = assembler()
    assert [held.add(*each) for each in (one[0], *other[1:])] == [None] * len(one)


def test_a_tombstone_takes_an_unfinished_block_away() -> None:
    records = _parts()
    held = assembler()
    held.add(*records[0])
    assert held.add(RecordKey(5, 3, 9).key, None) is None
    assert held.add(records[0][0], None) is None
    assert [held.add(*each) for each in records[1:]] == [None] * (len(records) - 1)


def test_units_are_numbered_by_chain_and_subposterior() -> None:
    assert UNIT.number == 5
    assert [Unit(j, c, 3, 2).number for c in range(3) for j in range(2)] == list(range(6))
    assert [UNIT.has(span.partition) for span in FRONTIER] == [True] * 3
    assert not UNIT.has(0)
