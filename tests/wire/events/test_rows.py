"""The format rows: tables of numbers, whose bad rows are told apart and can be sent again by themselves."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from streaminfer.models.checks import check
from streaminfer.models.events import Field
from streaminfer.wire.events.json_events import Bad
from streaminfer.wire.events.rows import MAX_BYTES, RowsEvents, Table, pack, unpack

SCHEMA: Any = json.loads((Path(__file__).parents[3] / "topics" / "rows.avsc").read_text())
FIELDS = (Field("k", "count"), Field("e", "positive"), Field("x", "number", path=("a", "x")))
COLUMNS = ("k", "e", "a.x")
FORMAT = RowsEvents(FIELDS, 3)


def by_hand(columns: list[str], values: bytes, head: bytes = b"\0\0\0\0\x03") -> bytes:
    """A record as any Avro client writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, {"columns": columns, "values": values})
    return head + out.getvalue()


def test_a_record_of_any_client_is_read_with_its_columns_in_any_order_and_any_schema_id() -> None:
    values = struct.pack("<8d", 1.5, 9, 7, 2, -1.5, 8, 6, 3)
    record = by_hand(["a.x", "other", "k", "e"], values, b"\0\0\0\x12\x34")
    decoded = FORMAT.decode([record, record])
    assert decoded.events.numbers.tolist() == [[7, 2, 1.5], [6, 3, -1.5]] * 2
    assert decoded.bad == []


def test_an_empty_table_and_no_record_are_no_events() -> None:
    assert FORMAT.decode([by_hand(list(COLUMNS), b"")]).events.numbers.shape == (0, 3)
    assert FORMAT.decode([]).events.numbers.shape == (0, 3)


def test_bad_rows_are_named_and_alone_in_what_is_sent_again() -> None:
    values = np.array([[1, 1, 0], [-1, 1, 0], [2, 0, 0], [3, 1, np.nan], [0.5, 1, 0], [0.25, 1, 0], [4, 1, 5]])
    record = pack(77, Table(("k", "e", "a.x"), values))
    decoded = FORMAT.decode([record])
    assert decoded.events.numbers.tolist() == [[1, 1, 0], [4, 1, 5]]
    (bad,) = decoded.bad
    assert bad.reason == (
        "rows 1, 4-5 of 7: k: must be a whole number from 0 to 2^53 (got -1, 0.5, 0.25); "
        "rows 2 of 7: e: must be a number above 0 and at most 1e+100 (got 0); "
        "rows 3 of 7: x (from a.x): must be a number of size at most 1e+100 (got nan)"
    )
    assert bad.n_events == 5
    assert bad.rest is not None
    assert bad.rest[:5] == b"\0\0\0\0\x4d"
    kept = unpack(bad.rest)
    assert kept.columns == COLUMNS
    np.testing.assert_array_equal(kept.values, values[1:6])
    again = FORMAT.decode([bad.rest])
    assert len(again.events.numbers) == 0
    assert [(x.rest, x.n_events) for x in again.bad] == [(None, 5)]


def test_a_record_without_good_rows_is_kept_as_it_is() -> None:
    record = by_hand(["k", "e", "a.x"], struct.pack("<3d", -1, 1, 0))
    assert FORMAT.decode([record]).bad == [
        Bad(0, "rows 0 of 1: k: must be a whole number from 0 to 2^53 (got -1)", None, 1)
    ]


GOOD = by_hand(list(COLUMNS), struct.pack("<3d", 1, 1, 0))


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (None, "not rows: a tombstone holds no value"),
        (b"", "not rows: 0 bytes are too few for the five of the framing"),
        (b"{1}  ", "not rows: the first byte is 0x7b, not the 0x00 of the Confluent framing"),
        (b'{"k": 1, "e": 1, "a": {"x": 1}}', "not rows: the first byte is 0x7b, not the 0x00 of the Confluent framing"),
        (b'{"k": 1}', "not rows, but JSON: e: is missing"),
        (b'{"k": "", "e": 1}', "not rows, but JSON: k: is empty, must be a whole number from 0 to 2^53"),
        (GOOD + b"x", "not rows: 1 bytes are left over after the record"),
        (GOOD[:-1], "not rows: the record ends too early for its schema"),
        (by_hand(["k", "e"], b""), "not rows: x (from a.x): is missing among the columns"),
        (by_hand([], b""), "not rows: columns: must be one or more, all different (got 0)"),
        (by_hand(["k", "e", "k"], b""), "not rows: columns: must be one or more, all different (got 3)"),
        (by_hand(["k", "e", "a.x"], b"12345678"), "not rows: values: must be whole rows of 3 float64 (got 8 bytes)"),
        (GOOD + bytes(MAX_BYTES), f"not rows: {MAX_BYTES + len(GOOD)} bytes are more than the 1048576 "),
    ],
)  # fmt: skip
def test_what_is_no_table_is_one_bad_record(record: bytes | None, reason: str) -> None:
    decoded = FORMAT.decode([GOOD, record, GOOD])
    assert decoded.events.numbers.tolist() == [[1, 1, 0]] * 2
    ((place, found, rest, n_events),) = decoded.bad
    assert (place, rest, n_events) == (1, None, 1)
    assert found.startswith(reason)


def test_reasons_are_those_of_rows_one_by_one() -> None:
    rng = np.random.default_rng(1)
    odd = np.array([0, 1, 2, -1, 0.5, np.nan, np.inf, -np.inf, 1e100, 1e101, 2.0**53, 2.0**53 + 2, -0.0])
    values = rng.choice(odd, size=(400, 3))
    decoded = FORMAT.decode([pack(3, Table(COLUMNS, row[None])) for row in values])
    expected = check(FIELDS, [{"k": k, "e": e, "a": {"x": x}} for k, e, x in values.tolist()])
    np.testing.assert_array_equal(decoded.events.numbers, expected.events.numbers)
    assert 0 < len(expected.events.numbers) < 400
    assert [(bad.place, bad.reason) for bad in decoded.bad] == [
        (each.row, f"rows 0 of 1: {each.reason}") for each in expected.rejected
    ]


def test_rows_are_written_many_a_record_and_others_as_they_are() -> None:
    rows = [json.dumps({"k": i, "e": 1, "a": {"x": i / 2}, "more": "text"}).encode() for i in range(1100)]
    others = [b"{", b"[1]", b'{"k":true,"e":1,"a":{"x":1}}', b'{"k":1}', b'{"k":1,"e":1,"a":{"x":"2"}}',
              b'{"k":1,"e":1,"a":{"x":1' + b"0" * 400 + b"}}", b'{"k":NaN,"e":1,"a":{"x":2}}']  # fmt: skip
    records = FORMAT.encode([others[0], *rows, *others[1:]])
    assert len(records) == 3 + len(others)
    assert records[3:] == others
    assert [len(unpack(record).values) for record in records[:3]] == [512, 512, 76]
    assert FORMAT.decode(records[:3]).events.numbers.tolist() == [[i, 1, i / 2] for i in range(1100)]


def test_values_out_of_the_domain_are_written_for_the_worker_to_judge() -> None:
    (record,) = FORMAT.encode([b'{"k":-1,"e":0,"a":{"x":1e300}}'])
    assert unpack(record).values.tolist() == [[-1, 0, 1e300]]


def test_records_of_very_many_columns_fit() -> None:
    fields = [Field(f"f{i}", "number") for i in range(1000)]
    made = RowsEvents(fields, 3)
    row = json.dumps({f"f{i}": i for i in range(1000)}).encode()
    records = made.encode([row] * 200)
    assert len(records) == 4
    assert max(map(len, records)) < MAX_BYTES
    assert made.decode(records).events.numbers.shape == (200, 1000)


def test_two_fields_may_be_in_one_column() -> None:
    made = RowsEvents([Field("a", "number", path=("x",)), Field("b", "number", path=("x",))], 3)
    (record,) = made.encode([b'{"x": 2}'])
    assert unpack(record).columns == ("x",)
    assert made.decode([record]).events.numbers.tolist() == [[2, 2]]
