"""Increments as records: round trips in one part and in many, and every check."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streaminfer.variational.increment import Increment, Layout
from streaminfer.wire import increments
from streaminfer.wire.errors import BadBody, BadValue
from tests.made import flat
from tests.wire.messages import VALUES, increment, increment_record


def _same(a: Increment, b: Increment) -> None:
    assert flat(a) == flat(b)


def _back(records: list[bytes], size: int) -> Increment:
    return increments.assemble([increments.decode(record) for record in records], Layout(size))


@pytest.mark.parametrize(
    "given",
    [
        increment(),
        increment(n_events=0, n_dead_lettered=0, n_lost=5, score=0.0),
        increment(begin=2**62, end=2**63 - 1, partition=2**31 - 1, base_version=2**63 - 1, epoch=3),
        increment(writer="ü" * 300, topic="", fingerprint=""),
        increment(statistics=np.array([5e-324, -1.7976931348623157e308, -0.0])),
    ],
)
def test_one_record_round_trip(given: Increment) -> None:
    records = increments.encode(given, 1 << 20)
    assert len(records) == 1
    _same(_back(records, 3), given)
    assert math.copysign(1, _back(records, 3).payload.statistics[2]) == math.copysign(1, given.payload.statistics[2])


@pytest.mark.parametrize("spare", [8, 15, 16, 23, 24, 80])
def test_several_parts_round_trip(spare: int) -> None:
    given = increment(statistics=np.arange(10.0))
    limit = increments.ENVELOPE + spare
    records = increments.encode(given, limit)
    assert len(records) == math.ceil(10 / (spare // 8))
    assert max(map(len, records)) <= limit
    parts = [increments.decode(record) for record in records]
    assert [part.value["part"] for part in parts] == list(range(len(records)))
    assert len({part.of for part in parts}) == 1
    _same(increments.assemble(parts, Layout(10)), given)


def test_statistics_of_no_number_are_one_part() -> None:
    records = increments.encode(increment(statistics=np.empty(0)), increments.ENVELOPE + 8)
    assert len(records) == 1
    assert _back(records, 0).payload.statistics.shape == (0,)


def test_the_envelope_holds_the_longest_texts() -> None:
    text = "\U0001f600" * increments.MAX_TEXT
    given = increment(writer=text, topic=text, fingerprint=text, statistics=np.arange(100.0))
    assert max(map(len, increments.encode(given, increments.ENVELOPE + 80))) <= increments.ENVELOPE + 80


BAD: list[tuple[dict[str, Any], str]] = [
    ({"fingerprint": "x" * 301}, "fingerprint must have at most 300 characters (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"writer": "x" * 301}, "writer must have at most 300 characters (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"topic": "x" * 301}, "topic must have at most 300 characters (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"partition": -1}, "partition must not be negative (got -1)"),
    ({"epoch": -1}, "epoch must not be negative (got -1)"),
    ({"begin": -1}, "begin must not be negative (got -1)"),
    ({"n_events": -1}, "n_events must not be negative (got -1)"),
    ({"n_dead_lettered": -1}, "n_dead_lettered must not be negative (got -1)"),
    ({"n_lost": -(2**63)}, "n_lost must not be negative (got -9223372036854775808)"),
    ({"base_version": -1}, "base_version must not be negative (got -1)"),
    ({"part": -1}, "part must not be negative (got -1)"),
    ({"end": 7}, "end must be above begin (got 7)"),
    ({"end": 3}, "end must be above begin (got 3)"),
    ({"n_events": 4}, "n_events counts must not exceed the 5 positions (got 6)"),
    ({"n_lost": 2**63 - 1}, "n_events counts must not exceed the 5 positions (got 9223372036854775811)"),
    ({"score": math.nan}, "score must be within 3e+100 of 0 (got nan)"),
    ({"score": -math.inf}, "score must be within 3e+100 of 0 (got -inf)"),
    ({"parts": 0}, "parts must be 1 to 10000 (got 0)"),
    ({"parts": -3}, "parts must be 1 to 10000 (got -3)"),
    ({"parts": 10_001}, "parts must be 1 to 10000 (got 10001)"),
    ({"part": 1}, "part must be below parts (got 1)"),
]


@pytest.mark.parametrize(("changes", "text"), BAD, ids=[text for _, text in BAD])
def test_a_value_out_of_bounds_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(BadValue) as caught:
        increments.decode(increment_record(**changes))
    assert str(caught.value) == text
    assert caught.value.reason == "bad-value"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_statistics_must_be_finite(number: float) -> None:
    data = np.array([1.0, number, 2.0], "<f8").tobytes()
    with pytest.raises(BadValue, match="a number is not finite"):
        _back([increment_record(statistics=data)], 3)


@pytest.mark.parametrize("length", [0, 8, 23, 25, 32, 100_000])
def test_statistics_must_have_the_size_of_the_model(length: int) -> None:
    with pytest.raises(BadValue, match=f"{length} bytes are not the 24 of 3 numbers"):
        _back([increment_record(statistics=bytes(length))], 3)


def test_texts_must_be_utf_8() -> None:
    record = increment_record(writer="worker-1")
    with pytest.raises(BadBody, match="UnicodeDecodeError"):
        increments.decode(record.replace(b"worker-1", b"worker-\xff"))


def test_a_byte_turned_in_the_statistics_is_that_number_and_no_other() -> None:
    record = bytearray(increment_record())
    record[-1] ^= 0x80
    assert _back([bytes(record)], 3).payload.statistics.tolist() == [VALUES[0], VALUES[1], -VALUES[2]]
