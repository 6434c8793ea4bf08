"""JSON records to events: the good ones as a matrix, each bad one with its place and reason."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.models.checks import check
from streaminfer.models.events import Field
from streaminfer.wire.events import json_values
from streaminfer.wire.events.json_events import Bad, decode_json
from streaminfer.wire.events.json_values import MAX_BYTES, MAX_DEPTH, parse_json

COUNT = (Field("k", "count"),)
PAIR = (Field("x", "number"), Field("c", "category", ("a", "b")))


def test_good_events_are_rows_in_their_order() -> None:
    decoded = decode_json(PAIR, [b'{"x": 1.5, "c": "b"}', b' {"c":"a","x":-2,"more":[1]} \n'])
    assert decoded.events.numbers.tolist() == [[1.5, 1.0], [-2.0, 0.0]]
    assert decoded.bad == []


def test_bad_ones_are_told_apart_and_the_good_ones_kept() -> None:
    decoded = decode_json(COUNT, [b'{"k":1}', None, b"{", b'{"k":-1}', b'{"k":2}', b'{"z":1}', b"[]", b"\xff"])
    assert decoded.events.numbers.tolist() == [[1.0], [2.0]]
    assert decoded.bad == [
        Bad(1, "not JSON: a tombstone holds no event"),
        Bad(2, "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        Bad(3, "k: must be a whole number from 0 to 2^53 (got -1)"),
        Bad(5, "k: is missing"),
        Bad(6, "an event must be an object with named fields (got a list of 0 values)"),
        Bad(7, "not JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ]


def test_no_record_and_only_bad_records_give_an_empty_matrix() -> None:
    assert decode_json(PAIR, []).events.numbers.shape == (0, 2)
    assert decode_json(PAIR, [b"x"]).events.numbers.shape == (0, 2)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"NaN", "not JSON: NaN is not a JSON number"),
        (b'{"k":-Infinity}', "not JSON: -Infinity is not a JSON number"),
        (b'{"k":1}{"k":2}', "not JSON: Extra data: line 1 column 8 (char 7)"),
        (b'\xef\xbb\xbf{"k":1}', "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b"", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b'{"k":true}', "k: must be a whole number from 0 to 2^53 (got True)"),
        (b'{"k":"1"}', "k: must be a whole number from 0 to 2^53 (got '1')"),
        (b'{"k":""}', "k: is empty, must be a whole number from 0 to 2^53"),
        (b'{"k":null}', "k: is null, must be a whole number from 0 to 2^53"),
        (b'{"k":1.5}', "k: must be a whole number from 0 to 2^53 (got 1.5)"),
        (b'{"k":1e999}', "k: must be a whole number from 0 to 2^53 (got inf)"),
        (b'{"k":9007199254740994}', "k: must be a whole number from 0 to 2^53 (got 9007199254740994)"),
        (
            b'{"k":1' + b"0" * 400 + b"}",
            "k: must be a whole number from 0 to 2^53 (got a whole number of more than 40 digits)",
        ),
        (b'"' + b"x" * MAX_BYTES + b'"', "not JSON: 1048578 bytes are more than the 1048576 an event may have"),
    ],
)
def test_reasons(record: bytes, reason: str) -> None:
    decoded = decode_json(COUNT, [record])
    assert decoded.bad == [Bad(0, reason)]
    assert decoded.events.numbers.shape == (0, 1)


def test_a_repeated_name_counts_with_its_last_value() -> None:
    assert decode_json(COUNT, [b'{"k":1,"k":2}']).events.numbers.tolist() == [[2.0]]


def test_an_event_of_exactly_the_limit_is_read() -> None:
    record = b'{"k":3}' + b" " * (MAX_BYTES - 7)
    assert decode_json(COUNT, [record]).events.numbers.tolist() == [[3.0]]


def test_the_events_are_float64() -> None:
    assert decode_json(COUNT, [b'{"k":3}']).events.numbers.dtype == np.float64


def one_by_one(fields: tuple[Field, ...], values: list[bytes | None]) -> tuple[list[list[float]], list[Bad]]:
    """What the records are, each parsed and checked by itself."""
    events: list[list[float]] = []
    bad: list[Bad] = []
    for i, value in enumerate(values):
        try:
            checked = check(fields, [parse_json(value)])
        except (ValueError, RecursionError) as error:
            bad.append(Bad(i, f"not JSON: {error}"[:300]))
            continue
        events += checked.events.numbers.tolist()
        bad += [Bad(i, each.reason) for each in checked.rejected]
    return events, bad


PIECES = [
    b'{"k":1}', b' {"k":2}\n', b'{"k":[{"x":1}', b'{"y":2}]}', b'{"k":3},{"k":4}', b'{"k":3},0,{"k":4}', b"1,2",
    b"[1", b"2]", b'"', b'{"k":"', b'"}', b"", b" ", b"]", b"[", b"],[", b"{", b"}", b"\xff", b"\xe2\x82",
    b'\xef\xbb\xbf{"k":1}', b'{"k":-0}', b'{"k":0.0}', b'{"k":1e2}', b'{"k":01}', b'{"k":1.}',
    b'{"k":18446744073709551616}', b'{"k":1,"s":"\\ud800"}', b'{"k":1,"s":"\t"}', b'{"\\u006b":7}', b'{"k":7}\x00',
    b"null", b"NaN", b'{"k":1e999}', b"[" * 2000, b"]" * 2000, b"9" * 5000, None,
]  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=6), max_size=12))
def test_records_parsed_together_are_what_they_are_alone(values: list[bytes | None]) -> None:
    """Even if two broken records would make a whole one, and a third would restore the count."""
    decoded = decode_json(COUNT, values)
    assert (decoded.events.numbers.tolist(), decoded.bad) == one_by_one(COUNT, values)


def test_a_record_that_fits_between_two_others_does_not_move_them() -> None:
    values: list[bytes | None] = [b'{"k":[{"x":1}', b'{"y":2}]}', b'{"k":3},{"k":4}', b'{"k":5}']
    decoded = decode_json(COUNT, values)
    assert decoded.events.numbers.tolist() == [[5]]
    assert [bad.place for bad in decoded.bad] == [0, 1, 2]


NUMBERS = (Field("x", "number"), Field("y", "number"))
NUMBER_TEXTS = st.floats(allow_nan=False).map(repr) | st.integers().map(str)


@pytest.mark.parametrize("quick", [True, False], ids=["orjson", "standard library"])
@settings(max_examples=200, deadline=None)
@given(texts=st.lists(st.tuples(NUMBER_TEXTS, NUMBER_TEXTS), max_size=8))
def test_numbers_are_what_the_standard_library_reads_with_orjson_and_without(
    quick: bool, texts: list[tuple[str, str]]
) -> None:
    values: list[bytes | None] = [f'{{"x":{x},"y": {y}}}'.encode() for x, y in texts]
    with pytest.MonkeyPatch.context() as patch:
        assert json_values._quick() is not None
        if not quick:
            patch.setattr(json_values, "_quick", lambda: None)
        decoded = decode_json(NUMBERS, values)
    assert (decoded.events.numbers.tolist(), decoded.bad) == one_by_one(NUMBERS, values)


@pytest.mark.parametrize("quick", [True, False], ids=["orjson", "standard library"])
def test_all_is_the_same_with_orjson_and_without(quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not quick:
        monkeypatch.setattr(json_values, "_quick", lambda: None)
    for piece in PIECES:
        values = [b'{"k":1}'] * 70 + [piece]
        decoded = decode_json(COUNT, values)
        assert (decoded.events.numbers.tolist(), decoded.bad) == one_by_one(COUNT, values)


def _nested(depth: int, fill: bytes = b"") -> bytes:
    """An event with N lists and objects inside of each other, itself one of them."""
    inner, outer = (depth - 1) // 2, depth - 1 - (depth - 1) // 2
    return b'{"k":1,"m":' + b"[" * outer + b'{"":' * inner + b'"' + fill + b'"' + b"}" * inner + b"]" * outer + b"}"


@pytest.mark.parametrize("quick", [True, False], ids=["orjson", "standard library"])
@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1, 950, 1010, 1500])
def test_the_same_nesting_is_taken_with_orjson_and_without(
    depth: int, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not quick:
        monkeypatch.setattr(json_values, "_quick", lambda: None)
    decoded = decode_json(COUNT, [b'{"k":0}', _nested(depth)])
    if depth <= MAX_DEPTH:
        assert decoded.events.numbers.tolist() == [[0.0], [1.0]]
    else:
        assert decoded.bad == [Bad(1, "not JSON: lists and objects must not be nested more than 100 deep")]


def test_only_brackets_that_nest_count() -> None:
    filled = _nested(MAX_DEPTH, b'[[[{{{\\"[[[' * 50)
    flat = b'{"k":2,"m":[' + b",".join([b"[{}]"] * 500) + b"]}"
    assert decode_json(COUNT, [filled, flat]).events.numbers.tolist() == [[1.0], [2.0]]
