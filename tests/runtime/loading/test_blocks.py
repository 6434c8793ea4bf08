"""Files in blocks: the same records as row by row, whatever a file holds, with pyarrow and without."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streaminfer.runtime.loading import numbers, sources
from streaminfer.runtime.loading.files import MAX_LINE, Counted, FileError, read_csv, read_ndjson
from streaminfer.runtime.loading.partitioning import Dealer
from streaminfer.runtime.loading.sources import OPENERS, Place, Source
from streaminfer.spec import Spec, parse_spec
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.runs import Run

REGRESSION = {"kind": "linear_regression", "features": ["a"], "target": "b"}
AVRO = json.dumps(
    {"type": "record", "name": "E", "fields": [{"name": name, "type": "double"} for name in ("b", "c", "a")]}
)


def _spec(form: str, **more: Any) -> Spec:
    document = {"name": "demo", "data": {"format": form, "partitions": 3}, "model": REGRESSION}
    return parse_spec({**document, **more})


SPECS = {
    "json": _spec("json"),
    "rows": _spec("rows"),
    "avro": _spec("avro"),
    "own schema": replace(_spec("avro"), data=replace(_spec("avro").data, schema_text=AVRO)),
    "coin": parse_spec({"name": "demo", "data": {"format": "rows"}, "model": {"kind": "bernoulli", "field": "a"}}),
    "keys": _spec("rows", model={"kind": "poisson", "field": "a"}, key={"field": "b"}),
    "names": _spec("json", model={"kind": "poisson", "field": "a"}, key={"field": "b"}),
}
CELLS = (
    "1_000", " 1", "1 ", "\t1", "1e400", "-1e400", "1e-400", "-1e-400", "nan", "inf", "-Infinity", "0x10", "+1", "-1",
    ".5", "5.", "-0", "-0.0", "-00", "+0", "-0e5", "00", "007", "1e5", "1E5", "12e4", "1e+05", "1.5e-3", "1e", "e5",
    "--1", "+-1", "-", ".", "1.2.3", "1-1", "1,5", "true", "False", "", "x", "ü", "１２", "9007199254740993",
    "-9007199254740993", "9" * 19, "9" * 20, "9" * 400, "0." + "3" * 60, "4.9e-324", "2.4703282292062328e-324",
    "1.7976931348623159e308", "2024-05-01T12:00:00Z", "a\\b", "a\tb", "\x00", "\x0b", "\x1c", "\x7f", "\ufeff1",
    "1\u2028", "\x85", "%d", "{}", "'", "1f", "1d", "0b1", "infinity", "NULL", "NA", "N/A",
)  # fmt: skip
HEAD = b"a,b,c\n"
PLAIN = b"".join(b"%d,%d.5,-%de-05\n" % (i, i, i) for i in range(20))
FILES = {
    "empty": b"", "only a header": HEAD, "no end of the header": HEAD[:-1], "no end": HEAD + PLAIN + b"1,2,3",
    "plain": HEAD + PLAIN, "carriage returns": (HEAD + PLAIN).replace(b"\n", b"\r\n"),
    "both": HEAD + PLAIN + PLAIN.replace(b"\n", b"\r\n"), "one return": HEAD + PLAIN + b"1,2\r,3\n" + PLAIN,
    "two returns": HEAD + PLAIN + b"1,2,3\r\r\n" + PLAIN, "return at the end": HEAD + PLAIN + b"1,2,3\r",
    "mark": b"\xef\xbb\xbf" + HEAD + PLAIN, "mark inside": HEAD + PLAIN + b"\xef\xbb\xbf1,2,3\n" + PLAIN,
    "blank lines": HEAD + b"\n\n" + PLAIN + b"\n \n" + PLAIN + b"\r\n\n\n", "only blank": HEAD + b"\n" * 300,
    "short and long": HEAD + PLAIN + b"1,2\n1,2,3,4\n" + PLAIN + b"1\n1,2,3,\n,1,2,3\n" + PLAIN,
    "that add up": HEAD + PLAIN + b"1,2\n3,4,5,6\n" + PLAIN, "commas": HEAD + b"1,2,3,\n" * 20 + b",,\n" * 20,
    "quotes": HEAD + PLAIN + b'"1","2","3"\n' + PLAIN + b'1,2,"x, ""y"""\n' + PLAIN,
    "quotes over lines": HEAD + PLAIN + b'1,2,"' + b"3\r\n4,\n" * 40 + b'"\n' + PLAIN,
    "a quote inside": HEAD + PLAIN + b'1,2"x",3\n' + PLAIN, "a bad quote": HEAD + PLAIN + b'1,"2"x,3\n' + PLAIN,
    "no end of a quote": HEAD + PLAIN + b'1,2,"3\n' + PLAIN, "quoted header": b'"a","b","c\nd"\n' + PLAIN,
    "not UTF-8": HEAD + PLAIN + b"1,2,\xff\n" + PLAIN, "a NUL": HEAD + PLAIN + b"1,2,\0\n" + PLAIN,
    "same names": b"c,a,b,c\n" + b"x,1,2,3\n" * 20, "same names of fields": b"a,a,b\n1,2,3\n",
    "other order": b"c,b,a\n" + PLAIN, "no such column": b"a,c\n1,2\n", "texts": HEAD + b'1,2,it is "x"\n1,2,y\n' * 9,
    "texts that are not read": HEAD + b"1,2,it is\n3,4,07\n" * 20, "one column": b"a\n1\n2\n\n3\n",
    "long": HEAD + PLAIN + b"1,2," + b"x" * 70_000 + b"\n" + PLAIN,
    "too long": HEAD + PLAIN + b"1,2," + b"x" * MAX_LINE + b"\n" + PLAIN,
    "too long as an event": HEAD + PLAIN + b"1,2," + b"x" * (MAX_LINE - 4) + b"\n" + PLAIN,
    "odd names": 'a,b,"c%s",ü\n'.encode() + b"1,2,3,4\n" * 20,
}  # fmt: skip
LINES = {
    "empty": b"", "plain": b'{"a": 1, "b": 2.5, "c": -0.0}\n' * 30, "dense": b'{"b":1,"a":-0}\n{"b":2,"a":-0.0}\n' * 9,
    "returns": b'{"a": 1, "b": 2.5}\r\n' * 30 + b'{"a": 1, "b": 2}\r\r\n', "no end": b'{"a":1,"b":2}\n{"a":1,"b":3}',
    "blank": b'{"a":1,"b":2}\n\n  \n\r\n{"a":1,"b":2}\n' * 5, "order": b'{"a":1,"b":2}\n{"b":1,"a":2}\n' * 9,
    "twice": b'{"a":1,"b":2,"a":3}\n' * 9, "twice later": b'{"a":1,"b":2}\n{"a":1,"b":2,"a":3}\n' * 9,
    "texts": b'{"a":1,"b":"2"}\n{"a":true,"b":null}\n{"a":[1],"b":{}}\n' * 9, "junk": b"x\n\xff\xfe\n[1,2]\n3\nnull\n",
    "numbers": b"".join(b'{"a":%b,"b":1}\n' % each for each in (
        b"1e400", b"NaN", b"-Infinity", b"01", b"1.", b".5", b"+1", b"1e5", b"-0", b"-0e3", b"9" * 25, b"9" * 5000,
        b"9007199254740993", b"1E-400", b"0x1", b"1_0", b"\xc2\xa01", b"1 ", b"  1",
    )), "names": '{"a":1,"b":2,"ü(.*)":3}\n'.encode() * 9 + b'{"a":1,"b":2,"\\u0061":3}\n',
    "nested": b'{"a":1,"b":2,"c":{"a":5,"b":6}}\n' * 9, "missing": b'{"a":1}\n' * 9,
    "deep": b'{"a":1,"b":' * 300 + b"\n", "spaces": b' { "a" : 1 , "b" : 2 } \n' * 9,
    "too long": b'{"a":1,"b":2}\n' * 9 + b'{"a":' + b"1" * MAX_LINE + b"}\n",
    "comma": b'{"a":1,"b":2},\n' * 9, "empty object": b"{}\n" * 9,
}  # fmt: skip


@pytest.fixture(params=["pyarrow", "numpy"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "numpy":
        monkeypatch.setattr(numbers, "pyarrow_csv", lambda: None)
    return str(request.param)


@pytest.fixture(params=[1 << 20, 400], ids=["whole", "cut"], autouse=True)
def _windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "WINDOW", request.param)
    monkeypatch.setattr(sources, "_SMALL", min(request.param, 32))


def _open(spec: Spec, data: bytes, reader: Any) -> Source:
    return OPENERS[reader](spec, Counted(io.BytesIO(data), "f"), "f", format_of(spec), True)


def _outcome(spec: Spec, runs: Callable[[], Iterator[Run]]) -> tuple[list[Any], str]:
    """The records of all rows in one batch, and what was wrong with the file."""
    found: list[Run] = []
    error = ""
    try:
        found.extend(runs())
    except FileError as caught:
        error = str(caught)
    return Dealer(spec).outputs(format_of(spec), "t", 3, 0, found), error


def _same(spec: Spec, data: bytes, reader: Any) -> None:
    """The rows before an error may be fewer in blocks, as those of its block are not sent."""

    def one_by_one() -> Iterator[Run]:
        for row in reader(spec, Counted(io.BytesIO(data), "f"), "f"):
            yield [row]

    expected, error = _outcome(spec, one_by_one)
    found, told = _outcome(spec, lambda: (part.run for part in _open(spec, data, reader).parts()))
    assert told == error
    if not error:
        assert found == expected


@pytest.mark.parametrize("file", FILES)
def test_a_csv_file_is_what_it_is_row_by_row(library: str, file: str) -> None:
    for spec in SPECS.values():
        _same(spec, FILES[file], read_csv)


@pytest.mark.parametrize("file", LINES)
def test_an_ndjson_file_is_what_it_is_row_by_row(library: str, file: str) -> None:
    for spec in SPECS.values():
        _same(spec, LINES[file], read_ndjson)


@pytest.mark.parametrize("name", SPECS)
def test_every_cell_is_what_it_is_row_by_row(library: str, name: str) -> None:
    for cell in CELLS:
        for row in (f"{cell},1,2", f"1,{cell},2", f"1,2,{cell}"):
            _same(SPECS[name], HEAD + PLAIN + row.encode() + b"\n" + PLAIN, read_csv)
            _same(SPECS[name], HEAD + row.encode() + b"\n", read_csv)


def test_plain_files_are_read_in_blocks(library: str) -> None:
    """Else all of these tests would compare the row reader with itself."""
    kinds = {
        (file, name): {type(part.run).__name__ for part in _open(SPECS[name], data, reader).parts()}
        for reader, files in ((read_csv, FILES), (read_ndjson, LINES))
        for file, data in files.items()
        for name in ("rows", "avro", "keys")
        if file in {"plain", "carriage returns", "other order", "returns at the end", "odd names"}
    }
    assert {each for each, found in kinds.items() if found != {"ndarray"}} == set()
    sound = [part.sound for part in _open(SPECS["json"], FILES["plain"], read_csv).parts()]
    assert all(sound)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_is_in_a_file(library: str, data: st.DataObject) -> None:
    cell = st.one_of(st.sampled_from(CELLS), st.floats().map(repr), st.integers().map(str), st.text(max_size=4))
    row = st.lists(cell, min_size=3, max_size=3).map(",".join)
    odd = st.one_of(row, st.lists(cell, max_size=5).map(",".join), st.just("1,2,3"))
    rows = data.draw(st.lists(odd, max_size=12))
    text = "a,b,c\n" + data.draw(st.sampled_from(["\n", "\r\n"])).join(rows)
    _same(SPECS[data.draw(st.sampled_from(sorted(SPECS)))], text.encode("utf-8", "surrogatepass"), read_csv)


@pytest.mark.parametrize("name", ["json", "rows"])
@pytest.mark.parametrize("file", ["plain", "carriage returns", "quotes over lines", "blank lines", "short and long"])
def test_from_every_place_on_the_rest_follows(library: str, file: str, name: str) -> None:
    """With places of this version and of the one before."""
    spec, data = SPECS[name], FILES[file]
    rows = list(read_csv(spec, Counted(io.BytesIO(data), "f"), "f"))
    whole, form = _open(spec, data, read_csv), format_of(spec)
    places = [whole.place()]
    for part in whole.parts():
        rest = part
        for _ in range(part.n):
            first, rest = rest.split(1)
            whole.passed(first)
            places.append(whole.place())
    assert [place.rows for place in places] == list(range(len(rows) + 1))
    older = sources._Texts()
    for place in places:
        for kept in (place, Place(place.rows, older.hexdigest())):
            again = _open(spec, data, read_csv)
            assert again.skip(kept)
            assert again.place().rows == place.rows
            assert _open(spec, data, read_csv).skip(again.place())
            assert form.encode(*(part.run for part in again.parts())) == form.encode(rows[place.rows :])
            changed = _open(spec, data.replace(b"1", b"7", 1), read_csv)
            assert not changed.skip(kept) or place.rows <= 1
        if place.rows < len(rows):
            older.add(sources.texts([rows[place.rows]]))


def test_a_row_that_has_grown_since_is_another() -> None:
    source = _open(SPECS["rows"], HEAD + b"1,2,3\n4,5,6", read_csv)
    for part in source.parts():
        source.passed(part)
    for more, same in ((b"", True), (b"\n", True), (b"\r\n7,8,9\n", True), (b"0\n", False), (b" \n", False)):
        assert _open(SPECS["rows"], HEAD + b"1,2,3\n4,5,6" + more, read_csv).skip(source.place()) is same
