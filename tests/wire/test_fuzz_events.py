"""Events and files of others, as `test_fuzz`: a value or the decoder's own error, whatever bytes come."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaminfer.models.events import Field
from streaminfer.models.times import AHEAD_S
from streaminfer.runtime.loading.files import Counted, FileError, read_csv, read_ndjson
from streaminfer.runtime.loading.readers import read_avro
from streaminfer.spec import parse_spec
from streaminfer.wire import dead_letters
from streaminfer.wire.avro import Schemas, frame
from streaminfer.wire.errors import BadValue
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.json_events import EventFormat, decode_json
from streaminfer.wire.events.rows import Table, pack
from tests.wire.budget import examples
from tests.wire.mutation import LONGS, arbitrary, mutated

FIELDS = (Field("k", "count"), Field("x", "number"), Field("c", "category", ("a", "b")))
EVENTS = [
    b'{"k":1,"x":-2.5e3,"c":"a"}',
    b'{"k":0,"x":0,"c":"b","more":[{"deep":null},true,"\\ud800"]}',
    b"[1,2]",
    b"null",
]
JSON = [b"[", b"{", b'"', b"NaN", b"1e999", b"-", b"\\u0000", b"9" * 30, b'"k":', b"\xf0\x9f\x98\x80", b"true", b"\x00"]
SPEC = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k", "exposure": "t"}})
CSV = [b'k,t,note\r\n1,0.5,a\r\n2,1,"b\nc"\r\n', b"\xef\xbb\xbfk,t\n1,2\n", b'"t","k"\n"1","2"\n\n3,4,5\n']
NDJSON = [b'{"k":1,"t":2}\n\n{"k":3,"t":1}\r\n', b"\n \n[]\n"]


def _decode_events(data: bytes) -> None:
    decoded = decode_json(FIELDS, [data, EVENTS[0]])
    assert len(decoded.events.numbers) + len(decoded.bad) == 2
    assert decoded.events.numbers[-1].tolist() == [1.0, -2500.0, 0.0]
    assert np.isfinite(decoded.events.numbers).all()


@examples("events.decode_json, arbitrary bytes")
@given(arbitrary())
def test_events_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _decode_events(data)


@examples("events.decode_json, mutated")
@given(mutated(EVENTS, JSON))
def test_events_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _decode_events(data)


DATED = {"name": "demo", "model": {"kind": "poisson", "field": "k", "exposure": "t"}}
DATED |= {"inference": {"forget": {"half_life_seconds": 60}}}
AVRO = parse_spec({**DATED, "data": {"format": "avro", "timestamp": "at"}})
ROWS = parse_spec({**DATED, "data": {"format": "rows", "timestamp": "at"}})
WRITERS = [
    AVRO.event_schema,
    json.dumps(
        {"type": "record", "name": "R", "fields": [
            {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
            {"name": "k", "type": ["null", "long", "double"]}, {"name": "t", "type": "float"},
            {"name": "at", "type": ["string", {"type": "long", "logicalType": "timestamp-micros"}]},
        ]}
    ),
]  # fmt: skip
"""One width, which numpy reads, and many."""
VALUES_OF = [
    {"k": 3, "t": 0.5, "at": 1e9},
    {"tags": {"a": ["x", "y"], "b": []}, "k": 2, "t": 0.5, "at": "2001-09-09T01:46:40Z"},
    {"tags": {}, "k": 2.0, "t": 0.5, "at": 10**15},
]


def _avro(which: int, value: dict[str, Any]) -> bytes:
    return frame(which, fastavro.parse_schema(json.loads(WRITERS[which].replace("logicalType", "x"))), value)


AVRO_RECORDS = [_avro(0, VALUES_OF[0]), _avro(1, VALUES_OF[1]), _avro(1, VALUES_OF[2])]
AVRO_FORMAT = format_of(AVRO, Schemas(lookup=lambda i: WRITERS[i] if i < len(WRITERS) else None))
ROWS_FORMAT = format_of(ROWS)
ROWS_RECORDS = [
    pack(3, Table(("k", "t", "at"), np.array([[3, 0.5, 1e9], [2, 0.5, 1e9]]))),
    pack(3, Table(("at", "x", "k", "t"), np.array([[1e9, 7, 2, 0.5]]))),
]
FLOATS = [*LONGS, *(np.array(x, "<f8").tobytes() for x in (np.nan, np.inf, -np.inf, 1e300, 9e9, -1.0))]


def _decode_dated(made: EventFormat, data: bytes, good: bytes, n_good: int) -> None:
    """Between two good records; nothing of them changes, and no time is ahead of what the log says."""
    stamp = 1e9
    decoded = made.decode([good, data, good], np.full(3, stamp))
    assert len(decoded.events.numbers) == len(decoded.places)
    assert decoded.places.tolist() == sorted(decoded.places.tolist())
    assert np.isfinite(decoded.events.numbers).all()
    assert (decoded.events.numbers[:, -1] <= stamp + AHEAD_S).all()
    assert [int((decoded.places == place).sum()) for place in (0, 2)] == [n_good, n_good]
    assert {bad.place for bad in decoded.bad} <= {1}
    assert len(decoded.bad) == 1 or (decoded.places == 1).any() or made is ROWS_FORMAT, "a record of no rows is none"


@examples("avro_events.decode, arbitrary bytes")
@given(arbitrary())
def test_avro_events_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        for schema_id in range(2):
            _decode_dated(AVRO_FORMAT, bytes((0, 0, 0, 0, schema_id)) + data, AVRO_RECORDS[0], 1)


@examples("avro_events.decode, mutated")
@given(mutated(AVRO_RECORDS, FLOATS))
def test_avro_events_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _decode_dated(AVRO_FORMAT, data, AVRO_RECORDS[1], 1)


@examples("avro_schema.reduced, mutated")
@given(mutated([text.encode() for text in WRITERS], [b'"', b"{", b"[", b"]", b"null", b'"R"', b"1", b'"items":', b","]))
def test_schemas_mutated(messages: list[bytes]) -> None:
    """Whatever a registry says a schema is, its records are events or bad ones."""
    for data in messages:
        text = data.decode("latin-1")
        made = format_of(AVRO, Schemas(lookup=lambda _, text=text: text))
        decoded = made.decode(AVRO_RECORDS)
        assert len(decoded.events.numbers) + len(decoded.bad) == len(AVRO_RECORDS)


@examples("rows.decode, arbitrary bytes")
@given(arbitrary())
def test_rows_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _decode_dated(ROWS_FORMAT, b"\x00\x00\x00\x00\x03" + data, ROWS_RECORDS[0], 2)


@examples("rows.decode, mutated")
@given(mutated(ROWS_RECORDS, [*FLOATS, b"\x02k", b"\x04at", b"\x02t"]))
def test_rows_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _decode_dated(ROWS_FORMAT, data, ROWS_RECORDS[1], 1)


def _avro_file(codec: str) -> bytes:
    out = io.BytesIO()
    schema = json.loads(WRITERS[1].replace('{"type": "long", "logicalType": "timestamp-micros"}', '"long"'))
    fastavro.writer(out, fastavro.parse_schema(schema), VALUES_OF[1:], codec=codec)
    return out.getvalue()


AVRO_FILES = [_avro_file(codec) for codec in ("null", "deflate")]


@examples("read_avro, mutated")
@given(mutated(AVRO_FILES, [*LONGS, b"null", b"deflate", b"snappy", b"xz", b"lz4"]))
def test_avro_files_mutated(messages: list[bytes]) -> None:
    for data in messages:
        with suppress(FileError):
            rows = list(read_avro(AVRO, Counted(io.BytesIO(data), "f"), "f"))
            assert bool(AVRO_FORMAT.encode(rows)) == bool(rows)  # a file of no rows is a file


NAMES = [f"streaminfer-{name}" for name in ("topic", "partition", "offset", "reason", "key", "tombstone", "")]
NAMES += ["", "h", "\udcff"]
VALUES = [b"0", b"1", b"-1", b"99999999999999999999", b"9" * 5000, b"", b"\xff", b" 7 ", b"1_0", b"x", b"\xd9\xa3"]


@examples("dead_letters.decode")
@given(st.binary(max_size=20))
def test_dead_letters_from_any_headers(draw: bytes) -> None:
    pairs = zip(draw[::2], draw[1::2], strict=False)
    headers = tuple((NAMES[name % len(NAMES)], VALUES[value % len(VALUES)]) for name, value in pairs)
    value = draw if len(draw) % 2 else None
    ours = dead_letters.DeadLetter("t", 1, 2, "r", value).to_headers()
    for known in (0, len(draw) % len(ours), len(ours) - 1):
        with suppress(BadValue):
            letter = dead_letters.decode(value, (*ours[:known], *headers))
            assert letter.partition >= 0
            assert letter.offset >= 0
            cut = replace(letter, reason=letter.reason[: dead_letters.MAX_REASON])
            assert dead_letters.decode(value, letter.to_headers()) == cut


def _read_csv(data: bytes) -> None:
    with suppress(FileError):
        for row in read_csv(SPEC, Counted(io.BytesIO(data), "f"), "f"):
            decode_json(SPEC.model.fields, [row])


@examples("read_csv, arbitrary bytes")
@given(arbitrary())
def test_csv_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _read_csv(data)
        _read_csv(b"k,t\n" + data)


@examples("read_csv, mutated")
@given(mutated(CSV, [b'"', b"\r", b"\n", b",", b"\x00", b"\xff", b"1_0", b"\xd9\xa3", b"1e999", b"9" * 25]))
def test_csv_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _read_csv(data)


def _read_ndjson(data: bytes) -> None:
    rows = list(read_ndjson(SPEC, Counted(io.BytesIO(data), "f"), "f"))
    assert all(row.strip() for row in rows)
    decode_json(SPEC.model.fields, rows)


@examples("read_ndjson, arbitrary bytes")
@given(arbitrary())
def test_ndjson_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _read_ndjson(data)


@examples("read_ndjson, mutated")
@given(mutated(NDJSON, JSON))
def test_ndjson_mutated(messages: list[bytes]) -> None:
    for data in messages:
        _read_ndjson(data)
