"""Times of events in avro and rows: each type that says one, in every way of reading, and what is not a time."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import example, given
from hypothesis import strategies as st

from streaminfer.models import times
from streaminfer.models.events import AHEAD, RULES
from streaminfer.models.reasons import shown
from streaminfer.spec import Spec, parse_spec
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.events.avro_events import AvroEvents
from streaminfer.wire.events.avro_times import text
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.json_events import Bad
from streaminfer.wire.events.rows import Table, pack, unpack

NOW = 1_700_000_000
MILLIS: Any = {"type": "long", "logicalType": "timestamp-millis"}
LABEL = "timestamp (from at)"


def spec_of(form: str = "avro", schema: Any = None, tmp: Path | None = None, **data: Any) -> Spec:
    if schema is not None and tmp is not None:
        (tmp / "e.avsc").write_text(json.dumps(schema))
        data["schema"] = str(tmp / "e.avsc")
    return parse_spec(
        {
            "name": "demo",
            "data": {"format": form, "timestamp": "at", **data},
            "model": {"kind": "poisson", "field": "k"},
            "inference": {"forget": {"half_life_seconds": 60}},
        }
    )


def record(at: Any, k: Any = "double", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "k", "type": k}, {"name": "at", "type": at, **more}]}


def body(schema: Any, value: Any, schema_id: int = 4) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def reader(writer: Any, **data: Any) -> AvroEvents:
    """Reads what is written by a schema that only the registry has."""
    return AvroEvents(spec_of(**data), 4, Schemas(lookup=lambda i: json.dumps(writer) if i == 9 else None))


TYPES: dict[str, tuple[Any, Any, float]] = {
    "double": ("double", NOW + 0.123456, NOW + 0.123456),
    "long": ("long", NOW, NOW),
    "int": ("int", NOW, NOW),
    "text": ("string", "2023-11-14T22:13:20.5Z", NOW + 0.5),
    "text of a zone": (["null", "string"], "2023-11-15T00:13:20.5+02:00", NOW + 0.5),
    "millis": (MILLIS, 1000 * NOW + 123, NOW + 0.123),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, 10**6 * NOW + 123456, NOW + 0.123456),
    "nanos": ({"type": "long", "logicalType": "timestamp-nanos"}, 10**9 * NOW + 123456789, NOW + 0.123456789),
    "local millis": ({"type": "long", "logicalType": "local-timestamp-millis"}, -1, -0.001),
    "local micros": ({"type": "long", "logicalType": "local-timestamp-micros"}, 10**6 * NOW, NOW),
    "local nanos": (["null", {"type": "long", "logicalType": "local-timestamp-nanos"}], 10**9 * NOW, NOW),
    "nullable": (["null", MILLIS], 1000 * NOW, NOW),
    "wrapped": ({"type": MILLIS}, 1000 * NOW, NOW),
    "one of several": (["null", "string", MILLIS], 1000 * NOW, NOW),
    "an unknown logical type": ({"type": "long", "logicalType": "eons"}, NOW, NOW),
    "a logical type that is no text": ({"type": "long", "logicalType": ["timestamp-millis"]}, NOW, NOW),
    "a logical type of a double": ({"type": "double", "logicalType": "timestamp-millis"}, NOW + 0.5, NOW + 0.5),
}


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_that_says_a_time(kind: str, tmp_path: Path) -> None:
    """From a registry and from data.schema; numbers are written as they are."""
    at, value, seconds = TYPES[kind]
    schema = record(at)
    plain = json.loads(json.dumps(record("long" if kind == "wrapped" else at)).replace("logicalType", "ignored"))
    data = body(plain, {"k": 3, "at": value})
    for made in (reader(schema), AvroEvents(spec_of(schema=schema, tmp=tmp_path), 4, DECLARED)):
        schema_id = b"\0\0\0\0\x09" if made._lookup else b"\0\0\0\0\x04"
        decoded = made.decode([schema_id + data[5:]], np.array([float(NOW)]))
        assert decoded.bad == []
        assert decoded.events.numbers.tolist() == [[3, pytest.approx(seconds, abs=1e-6 if abs(seconds) > 1 else 1e-12)]]
        assert decoded.places.tolist() == [0]


@pytest.mark.parametrize("kind", ["timestamp-millis", "timestamp-micros", "local-timestamp-millis"])
def test_moments_as_fastavro_and_confluents_serializer_write_them(kind: str) -> None:
    schema = record({"type": "long", "logicalType": kind})
    moment = datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=None if kind.startswith("local") else UTC)
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    serialize = AvroSerializer(client, json.dumps(schema))
    theirs = serialize({"k": 1.0, "at": moment}, SerializationContext("t", MessageField.VALUE))
    assert theirs is not None
    theirs = b"\0\0\0\0\x09" + bytes(theirs)[5:]
    assert theirs == body(schema, {"k": 1.0, "at": moment}, 9)
    assert reader(schema).decode([theirs]).events.numbers.tolist() == [[1, NOW + 0.25]]


def test_a_number_of_the_model_stays_what_it_is_where_its_type_is_a_moment() -> None:
    """Only the time of an event is in seconds; other fields of logical types are read as the types below them."""
    schema = record(MILLIS, k=MILLIS)
    data = body(json.loads(json.dumps(schema).replace("logicalType", "ignored")), {"k": 5000, "at": 1000 * NOW}, 9)
    assert reader(schema).decode([data]).events.numbers.tolist() == [[5000, NOW]]
    both = AvroEvents(spec_of(fields={"k": "at"}), 4, Schemas(lookup=lambda _: json.dumps(schema)))
    assert both.decode([data]).events.numbers.tolist() == [[1000 * NOW, NOW]]


@pytest.mark.parametrize(
    ("at", "found"), [("float", "float"), ("boolean", "boolean"), ("bytes", "bytes"), ("null", "null"),
                      ({"type": "enum", "name": "E", "symbols": ["x"]}, "enum")],
)  # fmt: skip
def test_types_that_say_no_time(at: Any, found: str) -> None:
    rule = f"{LABEL}: is of type {found}, it must be one of double, int, long, string"
    assert reader(record(at)).decode([b"\0\0\0\0\x09" + bytes(20)]).bad == [Bad(0, f"schema id 9: {rule}")]


def test_a_writer_without_the_time_has_the_default_of_the_specs_schema(tmp_path: Path) -> None:
    without = {"type": "record", "name": "R", "fields": [{"name": "k", "type": "double"}]}
    assert reader(without).decode([body(without, {"k": 1}, 9)]).bad == [
        Bad(0, f"schema id 9: {LABEL}: is missing in the schema")
    ]
    for at, default, seconds in ((MILLIS, 5500, 5.5), ("string", "1970-01-01T00:00:07Z", 7), ("double", 3, 3)):
        own = record(at, default=default)
        made = reader(without, schema=own, tmp=tmp_path)
        assert made.decode([body(without, {"k": 1}, 9)]).events.numbers.tolist() == [[1, seconds]]


HOSTILE = [float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 253_402_300_800.0, -62_135_596_801.0]


def test_what_is_no_time_and_what_is_too_far_ahead(tmp_path: Path) -> None:
    """By numpy and one by one, in avro and in rows: the same events and the same reasons."""
    values = [*HOSTILE, NOW, NOW + times.AHEAD_S, NOW + times.AHEAD_S + 0.001, 253_402_300_799.0, -62_135_596_800.0]
    stamps = np.full(len(values), float(NOW))
    schema = record("double")
    fast, slow = (AvroEvents(spec_of(schema=schema, tmp=tmp_path), 4, DECLARED) for _ in range(2))
    assert fast._own.dtype is not None, "fixed widths are read by numpy"
    slow._own.dtype = None
    data = [body(schema, {"k": 1, "at": at}) for at in values]
    rule, ahead = f"{LABEL}: {RULES['time']}", f"{LABEL}: {AHEAD}"
    expected = [Bad(i, f"{rule} (got {shown(at)})") for i, at in enumerate(HOSTILE)] + [Bad(i, ahead) for i in (9, 10)]
    for made in (fast, slow):
        decoded = made.decode(data, stamps)
        assert decoded.bad == expected
        assert decoded.events.numbers[:, 1].tolist() == [NOW, NOW + times.AHEAD_S, -62_135_596_800.0]
        assert decoded.places.tolist() == [7, 8, 11]
    rows = format_of(spec_of("rows")).decode(
        [pack(3, Table(("k", "at"), np.array([[1.0, at]]))) for at in values], stamps
    )
    np.testing.assert_array_equal(rows.events.numbers, decoded.events.numbers)
    assert rows.places.tolist() == [7, 8, 11]
    assert [(bad.place, bad.reason) for bad in rows.bad] == [(i, f"rows 0 of 1: {why}") for i, why, *_ in expected]


@pytest.mark.parametrize("form", ["json", "avro"])
def test_each_record_is_held_against_its_own_timestamp(form: str) -> None:
    made = format_of(spec_of(form))
    values = [b"junk", *made.encode([b'{"k":-1,"at":%d}' % NOW, *[b'{"k":1,"at":%d}' % NOW] * 3])]
    decoded = made.decode(values, np.array([9e9, 9e9, NOW - 9000, NOW, 0.0]))
    assert [bad.place for bad in decoded.bad] == [0, 1, 2, 4]
    assert decoded.places.tolist() == [3]


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 0xFFFF_FFFF_FFFF])
@pytest.mark.parametrize("at", ["long", MILLIS, {"type": "long", "logicalType": "timestamp-nanos"}], ids=str)
def test_longs_at_the_edges_are_events_or_bad_ones(at: Any, value: int) -> None:
    data = body(record("long"), {"k": 1, "at": value}, 9)
    decoded = reader(record(at)).decode([data], np.array([float(NOW)]))
    assert len(decoded.events.numbers) + len(decoded.bad) == 1
    assert np.isfinite(decoded.events.numbers).all()
    assert (decoded.events.numbers[:, 1] <= NOW + times.AHEAD_S).all()


def test_late_and_bad_rows_of_a_record_are_one_letter() -> None:
    values = np.array([[1, NOW], [-1, NOW], [2, NOW + 5000], [3, NOW - 1e9], [4, np.nan], [5, NOW + 9e9]])
    record = pack(3, Table(("k", "at"), values))
    for stamp, late in ((NOW, [2, 5]), (NOW + 1400, [5]), (NOW - 5000, [0, 2, 5])):
        decoded = format_of(spec_of("rows")).decode([b"junk", record], np.array([0.0, stamp]))
        bad = decoded.bad[1]
        gone = sorted({1, 4, *late})
        assert (bad.place, bad.n_events) == (1, len(gone))
        assert bad.rest is not None
        np.testing.assert_array_equal(unpack(bad.rest).values, values[gone])
        assert f"rows {', '.join(map(str, late))} of 6: {LABEL}: {AHEAD}" in bad.reason
        np.testing.assert_array_equal(decoded.events.numbers, np.delete(values, gone, axis=0))
        assert decoded.places.tolist() == [1] * (6 - len(gone))


WRITTEN: dict[str, tuple[Any, Any, Any]] = {
    "double": ("double", NOW + 0.25, NOW + 0.25),
    "long": ("long", NOW, NOW),
    "int": (["null", "int"], NOW, NOW),
    "millis": (MILLIS, 1000 * NOW + 250, NOW + 0.25),
    "nullable micros": (["null", {"type": "long", "logicalType": "timestamp-micros"}], 10**6 * NOW + 250_000,
                        NOW + 0.25),
    "text": ("string", "2023-11-14T22:13:20.250000000Z", NOW + 0.25),
    "double before millis": (["double", MILLIS], NOW + 0.25, NOW + 0.25),
    "millis before double": ([MILLIS, "double"], NOW + 0.25, NOW + 0.25),
    "whole seconds, millis before double": ([MILLIS, "double"], NOW, NOW),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRITTEN)
def test_times_are_written_as_the_schema_has_them(kind: str, tmp_path: Path) -> None:
    at, written, seconds = WRITTEN[kind]
    schema = record(at)
    made = AvroEvents(spec_of(schema=schema, tmp=tmp_path), 4, DECLARED)
    fraction = ".25" if seconds != NOW else ""
    rows = [json.dumps({"k": 1, "at": said}).encode() for said in (seconds, f"2023-11-14T23:13:20{fraction}+01:00")]
    records = made.encode(rows)
    plain = json.loads(json.dumps(schema).replace("logicalType", "ignored"))
    found: list[Any] = [
        fastavro.schemaless_reader(io.BytesIO(r[5:]), fastavro.parse_schema(plain), None) for r in records
    ]
    expected = [written, json.loads(rows[1])["at"] if at == "string" else written]
    assert [each["at"] for each in found] == expected
    assert made.decode(records).events.numbers.tolist() == [[1, seconds]] * 2


def test_what_cannot_be_written_goes_as_it_is(tmp_path: Path) -> None:
    """Not a time, or a fraction of a second in a type of whole ones: the worker shows the row as it was."""
    rows = [b'{"k":1,"at":%s}' % at for at in (b"1.5", b'"soon"', b"true", b"null", b"1e300", b'"1970-01-01"', b"[]")]
    rows += [b'{"k":1}', b"[]"]
    for schema in (record("long"), record(MILLIS)):
        made = AvroEvents(spec_of(schema=schema, tmp=tmp_path), 4, DECLARED)
        first = 0 if schema["fields"][1]["type"] == "long" else 1
        assert made.encode(rows[first:]) == rows[first:]
    made_rows = format_of(spec_of("rows"))
    assert made_rows.encode([rows[1], *rows[2:4], *rows[5:]]) == [rows[1], *rows[2:4], *rows[5:]]


def test_rows_hold_seconds_whatever_said_them() -> None:
    made = format_of(spec_of("rows", timestamp="t.at"))
    (table,) = made.encode([b'{"k":1,"t":{"at":"2023-11-14T22:13:20.5Z"}}', b'{"k":2,"t":{"at":%d}}' % NOW])
    assert unpack(table).columns == ("k", "t.at")
    assert made.decode([table]).events.numbers.tolist() == [[1, NOW + 0.5], [2, NOW]]
    missing = pack(3, Table(("k",), np.ones((1, 1))))
    assert made.decode([missing]).bad == [Bad(0, "not rows: timestamp (from t.at): is missing among the columns")]


def test_a_text_is_no_number_of_the_model_where_both_are_in_one_column() -> None:
    made = format_of(spec_of("rows", fields={"k": "at"}))
    row = b'{"at":"2023-11-14T22:13:20Z"}'
    assert made.encode([row]) == [row]


@given(st.floats(times.EARLIEST, times.LATEST))
@example(times.EARLIEST)
@example(times.LATEST)
@example(-1e-12)
@example(NOW + 0.999_999_999_9)
def test_a_time_as_a_text_is_the_same_time(seconds: float) -> None:
    """Against the calendar of the standard library, and back by our own reading."""
    said = text(seconds)
    assert times.parse(said) == pytest.approx(seconds, abs=6e-10, rel=1e-16)
    whole = datetime(1970, 1, 1) + timedelta(seconds=int(times.parse(said) // 1))
    assert said.startswith(whole.isoformat())
