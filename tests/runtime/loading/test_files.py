"""Files to records: CSV is typed by the model, NDJSON goes as it is."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaminfer.models.checks import check
from streaminfer.runtime.loading.files import MAX_LINE, Counted, FileError, encode, read_csv, read_ndjson
from streaminfer.runtime.loading.readers import reader_of
from streaminfer.spec import parse_spec

COUNTS = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k", "exposure": "hours"}})
ONE = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k"}})
COLOURS = parse_spec({"name": "demo", "model": {"kind": "categorical", "field": "c", "categories": ["1", "2"]}})


def _csv(data: bytes, spec: Any = ONE) -> list[Any]:
    return [json.loads(row) for row in read_csv(spec, Counted(io.BytesIO(data), "f.csv"), "f.csv")]


def _fails(data: bytes, spec: Any = ONE) -> str:
    with pytest.raises(FileError) as caught:
        _csv(data, spec)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("-7", -7), ("+7", 7), ("007", 7), ("1.5", 1.5), ("1e3", 1000.0), (" 2 ", 2.0), ("-0.0", -0.0),
        ("9" * 19, int("9" * 19)), ("9" * 20, float("9" * 20)), ("", ""), ("x", "x"), ("nan", "nan"), ("inf", "inf"),
        ("-Infinity", "-Infinity"), ("1e999", "1e999"), ("1_000", "1_000"), ("1_0.5", "1_0.5"), ("0x10", "0x10"),
        ("--5", "--5"), ("+-5", "+-5"), ("true", "true"), ("1,5", "1,5"),
    ],
)  # fmt: skip
def test_values_of_number_fields(text: str, value: Any) -> None:
    (row,) = _csv(f'k\n"{text}"\n'.encode())
    assert row == {"k": value}
    assert type(row["k"]) is type(value)


def test_categories_stay_strings() -> None:
    assert _csv(b"c,id\n1,007\n", COLOURS) == [{"c": "1", "id": "007"}]
    assert _csv(b"id,k\n007,7\n") == [{"id": "007", "k": 7}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("-7", -7), ("0", 0), ("1.50", 1.5), ("-0.25", -0.25), ("1e-05", 1e-05), ("1.5E10", 1.5e10),
        ("2.0e+150", 2e150), ("0.30000000000000004", 0.30000000000000004), ("1.000000000000000056e-01", 0.1),
        (str(2**53), 2**53), (str(-(2**53)), -(2**53)), ("999999999999999", 999999999999999),
    ],
)  # fmt: skip
def test_a_cell_that_nothing_reads_is_the_number_that_it_looks_like(text: str, value: Any) -> None:
    (row,) = _csv(f'k,x\n1,"{text}"\n'.encode())
    assert row == {"k": 1, "x": value}
    assert type(row["x"]) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "", "01234", "00", "-01", "+49", "+1.5", "1_000", " 12", "12 ", ".5", "5.", "1e5", "12E4", "1.0e999",
        str(2**53 + 1), "12345678901234567", "1" * 400, "nan", "inf", "-Infinity", "0x10", "1,5", "--5", "-", "１２",
        "12\n", "true", "False", "2024-05-01", "1.2.3",
    ],
)  # fmt: skip
def test_a_cell_that_nothing_reads_stays_text_where_a_number_would_lose_something(text: str) -> None:
    assert _csv(f'k,x\n1,"{text}"\n'.encode()) == [{"k": 1, "x": text}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("FALSE", False), ("True", True), ("1", 1), ("0", 0), ("yes", "yes"), ("tRUE", "tRUE"),
        ("", ""),
    ],
)  # fmt: skip
def test_true_and_false_of_a_field_that_is_0_or_1(text: str, value: Any) -> None:
    spec = parse_spec({"name": "demo", "model": {"kind": "bernoulli", "field": "y"}})
    (row,) = _csv(f"y,z\n{text},{text or 'x'}\n".encode(), spec)
    assert row["y"] == value
    assert type(row["y"]) is type(value)
    assert row["z"] == {"1": 1, "0": 0, "": "x"}.get(text, text), "what nothing reads stays a text"


def test_rows_of_a_wrong_length_become_lists_and_blank_lines_nothing() -> None:
    """With the values and how many there should be: the worker, which has not seen the header, can say what is
    wrong."""
    data = b"k,hours\n1,2\n3\n\n4,5,6\n7,8\n"
    found = _csv(data, COUNTS)
    assert [found[0], found[3]] == [{"k": 1, "hours": 2}, {"k": 7, "hours": 8}]
    assert found[1:3] == [[{"row": ["3"], "header_fields": 2}], [{"row": ["4", "5", "6"], "header_fields": 2}]]
    assert [bad.reason for bad in check(COUNTS.event_fields, found).rejected] == [
        "row has 1 field, the header has 2", "row has 3 fields, the header has 2"
    ]  # fmt: skip


def test_a_byte_order_mark_is_no_part_of_the_first_column() -> None:
    assert _csv("\ufeffk\r\n1\r\n".encode()) == [{"k": 1}]
    assert _csv('\ufeff"k"\n\ufeff1\n'.encode()) == [{"k": "\ufeff1"}]


def test_quotes_hold_newlines_commas_and_quotes() -> None:
    data = 'note,k\n"one\r\ntwo, ""three""",5\n"ü",6\n'.encode()
    assert _csv(data) == [{"note": 'one\r\ntwo, "three"', "k": 5}, {"note": "ü", "k": 6}]


def test_a_file_without_last_newline() -> None:
    assert _csv(b"k\n1\n2") == [{"k": 1}, {"k": 2}]
    assert _csv(b"k") == []


def test_errors_name_file_line_and_rule() -> None:
    assert _fails(b"") == "f.csv: is empty; its first line must name the columns"
    assert _fails(b"kk,hours\n", COUNTS) == (
        "f.csv: has no column 'k', which the model reads; did you mean 'kk'? "
        "(its columns, separated by commas: kk, hours)"
    )
    assert _fails(b"a\n") == "f.csv: has no column 'k', which the model reads (its columns, separated by commas: a)"
    assert _fails(b"k,id,k\n1,2,3\n") == "f.csv: column 'k' of the model appears 2 times in the first line"
    assert _fails(b"k\n1\n\xff\n").startswith("f.csv: line 3 is not CSV in UTF-8: 'utf-8' codec can't decode byte 0xff")
    assert _fails(b'k\n1\n"2"x\n').startswith("f.csv: line 3 is not CSV in UTF-8: ")
    assert _fails(b'k\n"1\n').startswith("f.csv: line 2 is not CSV in UTF-8: unexpected end of data")
    assert _fails(b"k\n1\r2\n").startswith("f.csv: line 2 is not CSV in UTF-8: new-line character")


def test_columns_that_no_field_names_may_repeat() -> None:
    assert _csv(b"k,x,x\n1,2,3\n") == [{"k": 1, "x": 3}]


def test_a_line_longer_than_a_record_is_refused() -> None:
    longest = b"9" * MAX_LINE
    rows = read_ndjson(ONE, Counted(io.BytesIO(b"k\n" + longest + b"\r\n" + longest + b"9\n"), "f"), "f")
    assert [len(next(rows)) for _ in range(2)] == [1, MAX_LINE]
    with pytest.raises(FileError) as caught:
        next(rows)
    assert str(caught.value) == "f: line 3 has more than the 1048576 bytes of a record"


def test_a_row_that_is_too_long_as_an_event_is_refused_with_its_line() -> None:
    around = len(b'{"k":""}')
    rows = read_csv(ONE, Counted(io.BytesIO(b"k\n" + b"x" * (MAX_LINE - around) + b"\n" + b"x" * MAX_LINE), "f"), "f")
    assert len(next(rows)) == MAX_LINE
    with pytest.raises(FileError) as caught:
        next(rows)
    assert str(caught.value) == "f: line 3 is an event of more than the 1048576 bytes of a record"


def test_a_row_over_many_lines_is_bounded() -> None:
    line = b"9" * 100_000 + b"\n"
    assert _fails(b'k\n"' + (line + b'","') * 30) == "f.csv: the row that ends in line 22 has more than 2097152 bytes"
    assert len(_csv(b"k\n" + b"1\n" * 2 + (b'"' + line * 5 + b'"\n') * 10)) == 12


def _ndjson(data: bytes) -> Iterator[bytes]:
    return read_ndjson(ONE, Counted(io.BytesIO(data), "f"), "f")


def test_ndjson_lines_go_as_they_are() -> None:
    data = b'{"k":1}\n\n  \r\n {"k" : 2.0}  \r\nnot JSON\n\xff\xfe\n{"k":3}'
    assert list(_ndjson(data)) == [b'{"k":1}', b' {"k" : 2.0}  ', b"not JSON", b"\xff\xfe", b'{"k":3}']


def test_lines_and_bytes_are_counted_as_they_are_read() -> None:
    lines = Counted(io.BytesIO(b"a\nbb\n\nc"), "f")
    seen = [(lines.lines, lines.n_read) for _ in lines]
    assert seen == [(1, 2), (2, 5), (3, 6), (4, 7)]


def test_the_ending_of_a_name_decides() -> None:
    assert reader_of(Path("a/b.CSV")) is read_csv
    assert reader_of(Path("b.ndjson")) is reader_of(Path("b.jsonl")) is read_ndjson
    assert reader_of(Path("b.2024.CSV.gz")) is read_csv
    assert reader_of(Path("b.ndjson.gz")) is reader_of(Path("b.jsonl.GZ")) is read_ndjson
    for name, ending in (("b.gz", ".gz"), ("b.parquet.gz", ".parquet.gz"), ("csv", "")):
        with pytest.raises(FileError, match=f"got '{ending}'"):
            reader_of(Path(name))
    with pytest.raises(FileError) as caught:
        reader_of(Path("b.txt"))
    assert str(caught.value) == (
        "b.txt: the name must end in one of .csv, .ndjson, .jsonl, .csv.gz, .ndjson.gz, .jsonl.gz, .parquet, .avro "
        "(got '.txt')"
    )


def test_numbers_of_numpy_are_numbers() -> None:
    row = {"k": np.int64(3), "x": np.float32(0.5), "b": np.bool_(True), "t": "ü"}
    assert encode(row) == '{"k":3,"x":0.5,"b":true,"t":"ü"}'.encode()
    with pytest.raises(TypeError, match="object is not a value that an event can have"):
        encode({"k": object()})


def _mapped(path: str) -> Any:
    return parse_spec({"name": "demo", "data": {"fields": {"k": path}}, "model": {"kind": "poisson", "field": "k"}})


def test_columns_are_the_places_of_the_fields() -> None:
    """The events that a file becomes are read with the same mapping."""
    assert _csv(b"n,k\n7,x\n", _mapped("n")) == [{"n": 7, "k": "x"}]
    assert "has no column 'n', which the model reads" in _fails(b"k\n7\n", _mapped("n"))


def test_a_table_has_no_nested_objects() -> None:
    assert "k (from a.n) is inside an object, which CSV does not have; use a .ndjson file" in _fails(
        b"k,a,a.n\n1,2,3\n", _mapped("a.n")
    )
