"""The format avro: any writer's schema that has the model's fields, and the fast way says the same as the slow one."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import fastavro
import fastavro.utils
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.models.events import Field
from streaminfer.spec import Spec, parse_spec
from streaminfer.spec.avro_schema import reduced
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.events.avro_events import MAX_PLANS, AvroEvents
from streaminfer.wire.events.json_events import Bad
from streaminfer.wire.events.plan import Plan

FIXED = [{"name": "k", "type": "double"}, {"name": "e", "type": "float"}]


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def spec_of(schema: Any = None, tmp: Any = None, **data: Any) -> Spec:
    model = {"kind": "poisson", "field": "k", "exposure": "e"}
    if schema is not None:
        (tmp / "e.avsc").write_text(json.dumps(schema))
        data["schema"] = str(tmp / "e.avsc")
    return parse_spec({"name": "demo", "data": {"format": "avro", **data}, "model": model})


def framed(schema: Any, value: Any, schema_id: int = 4) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def with_registry(texts: dict[int, Any]) -> Schemas:
    return Schemas(lookup=lambda i: json.dumps(texts[i]) if i in texts else None)


DERIVED = record(("k", "double"), ("e", "double"))


def test_without_a_schema_events_are_the_models_fields_as_doubles() -> None:
    made = AvroEvents(spec_of(), 4, DECLARED)
    records = made.encode([b'{"k":3,"e":0.5,"more":1}', b'{"e":2,"k":1.0}'])
    assert records == [framed(DERIVED, {"k": 3, "e": 0.5}), framed(DERIVED, {"k": 1, "e": 2})]
    assert made.decode(records).events.numbers.tolist() == [[3, 0.5], [1, 2]]


def test_what_the_schema_cannot_hold_goes_as_it_is_and_is_a_bad_event() -> None:
    made = AvroEvents(spec_of(), 4, DECLARED)
    rows = [
        b'{"k":true,"e":1}',
        b'{"k":"3","e":1}',
        b'{"k":3}',
        b"[1, 2]",
        b"{    ",
        b'{"k":1' + b"0" * 400 + b',"e":1}',
    ]
    assert made.encode(rows) == rows
    assert [bad.reason for bad in made.decode(rows).bad] == [
        "not Avro, but JSON: k: must be a whole number from 0 to 2^53 (got True)",
        "not Avro, but JSON: k: must be a whole number from 0 to 2^53 (got '3')",
        "not Avro, but JSON: e: is missing",
        "not Avro, but JSON: an event must be an object with named fields (got a list of 2 values)",
        "not Avro: the first byte is 0x7b, not the 0x00 of the Confluent framing",
        "not Avro, but JSON: k: must be a whole number from 0 to 2^53 (got a whole number of more than 40 digits)",
    ]


WRITERS: dict[str, tuple[Any, Any]] = {
    "other order": (record(("e", "double"), ("k", "double")), {"k": 3, "e": 0.5}),
    "other numbers": (record(("k", "long"), ("e", "float")), {"k": 3, "e": 0.5}),
    "nullable": (record(("k", ["null", "int"]), ("e", ["double", "null"])), {"k": 3, "e": 0.5}),
    "logical": (
        record(("at", {"type": "long", "logicalType": "timestamp-millis"}), ("k", "int"), ("e", "double")),
        {"at": 5, "k": 3, "e": 0.5},
    ),
    "more of everything": (
        record(
            ("id", "string"), ("tags", {"type": "array", "items": "string"}),
            ("map", {"type": "map", "values": ["null", "long"]}), ("raw", "bytes"), ("b", "boolean"),
            ("f", {"type": "fixed", "name": "F", "size": 3}), ("k", "int"),
            ("c", {"type": "enum", "name": "C", "symbols": ["x", "y"]}), ("n", "null"),
            ("inner", record(("k", "double"), ("f", "F"), name="I")), ("e", "double"), ("again", ["null", "I"]),
        ),
        {"id": "ü" * 99, "tags": ["a"] * 9, "map": {"a": None, "b": -5}, "raw": b"123", "b": True, "f": b"abc", "k": 3,
         "c": "y", "n": None, "inner": {"k": 9, "f": b"xyz"}, "e": 0.5, "again": {"k": 8, "f": b"uvw"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("writer", WRITERS)
def test_any_writers_schema_that_has_the_fields(writer: str) -> None:
    schema, value = WRITERS[writer]
    made = AvroEvents(spec_of(), 4, with_registry({17: schema}))
    good = framed(schema, value, 17)
    decoded = made.decode([good, good + b"x", good[:-1], good])
    assert decoded.events.numbers.tolist() == [[3, 0.5]] * 2
    assert [bad.place for bad in decoded.bad] == [1, 2]
    assert decoded.bad[0].reason == "not Avro: 1 bytes are left over after the record"
    assert decoded.bad[1].reason == "not Avro: the record ends too early"


def test_records_of_several_writers_keep_their_order() -> None:
    schemas = {i: schema for i, (schema, _) in enumerate(WRITERS.values())}
    made = AvroEvents(spec_of(), 4, with_registry(schemas))
    records = []
    for n in range(40):
        schema, value = list(WRITERS.values())[n % len(WRITERS)]
        records.append(framed(schema, {**value, "k": n}, n % len(WRITERS)))
    records[7] = b"?"
    decoded = made.decode(records)
    assert decoded.events.numbers[:, 0].tolist() == [n for n in range(40) if n != 7]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (record(("k", "double")), "schema id 9: e: is missing in the schema"),
        (record(("k", "boolean"), ("e", "double")),
         "schema id 9: k: is of type boolean, it must be one of double, float, int, long"),
        (record(("k", "null"), ("e", "double")),
         "schema id 9: k: is of type null, it must be one of double, float, int, long"),
        ("double", "schema id 9: must be a record with named fields"),
        (record(("k", "double"), ("e", "double"), ("next", ["null", "R"])),
         "schema id 9: is recursive: a type holds itself"),
        (record(("k", "double"), ("e", "double"), ("x", {"type": "array", "items": "null"})),
         "schema id 9: has an array whose elements have no bytes"),
    ],
)  # fmt: skip
def test_writers_that_are_not_read(schema: Any, reason: str) -> None:
    made = AvroEvents(spec_of(), 4, with_registry({9: schema}))
    decoded = made.decode([b"\0\0\0\0\x09" + bytes(16)])
    assert decoded.bad == [Bad(0, reason)]


def test_an_id_that_nobody_knows_is_a_bad_event_and_is_asked_for_again() -> None:
    known: dict[int, Any] = {}
    made = AvroEvents(spec_of(), 4, with_registry(known))
    data = framed(DERIVED, {"k": 1, "e": 1}, 8)
    assert made.decode([data]).bad == [Bad(0, "schema id 8 is not in the registry")]
    known[8] = DERIVED
    assert made.decode([data]).events.numbers.tolist() == [[1, 1]]


def test_a_known_id_is_asked_for_once_and_few_are_remembered() -> None:
    asked: list[int] = []

    def lookup(i: int) -> str:
        asked.append(i)
        return json.dumps(DERIVED)

    made = AvroEvents(spec_of(), 4, Schemas(lookup=lookup))
    for i in [5, 5, *range(10, MAX_PLANS + 10), 5]:
        assert len(made.decode([framed(DERIVED, {"k": 1, "e": 1}, i)]).events.numbers) == 1
    assert asked.count(5) == 2
    assert asked.count(11) == 1


def test_ids_without_a_registry(tmp_path: Any) -> None:
    data = [framed(DERIVED, {"k": i, "e": 1}, i) for i in (4, 5)]
    assert len(AvroEvents(spec_of(), 4, DECLARED).decode(data).events.numbers) == 2
    decoded = AvroEvents(spec_of(DERIVED, tmp_path, schema_id=5), 5, DECLARED).decode(data)
    assert decoded.events.numbers.tolist() == [[5, 1]]
    assert decoded.bad == [Bad(0, "schema id 4 is not the 5 of data.schema_id, and there is no registry")]


def test_the_specs_own_id_is_never_asked_for() -> None:
    made = AvroEvents(spec_of(schema_id=5), 5, with_registry({}))
    assert len(made.decode([framed(DERIVED, {"k": 1, "e": 1}, 5)]).events.numbers) == 1


def test_a_field_that_a_writer_lacks_has_the_default_of_the_specs_schema(tmp_path: Any) -> None:
    own = record(("k", "long"), ("e", "double"))
    own["fields"][1]["default"] = 2.5
    writer = record(("k", "double"))
    made = AvroEvents(spec_of(own, tmp_path), 4, with_registry({9: writer}))
    assert made.decode([framed(writer, {"k": 3}, 9)]).events.numbers.tolist() == [[3, 2.5]]


def test_nulls_are_bad_events() -> None:
    schema, _ = WRITERS["nullable"]
    made = AvroEvents(spec_of(), 4, with_registry({9: schema}))
    decoded = made.decode([framed(schema, {"k": None, "e": 1.0}, 9), framed(schema, {"k": 1, "e": None}, 9)])
    assert [bad.reason for bad in decoded.bad] == [
        "k: is null, must be a whole number from 0 to 2^53",
        "e: is null, must be a number above 0 and at most 1e+100",
    ]


def test_categories_are_strings_or_enums(tmp_path: Any) -> None:
    model = {"kind": "categorical", "field": "c", "categories": ["a", "b"]}
    enum = record(("c", {"type": "enum", "name": "E", "symbols": ["b", "z", "a"]}))
    text = record(("c", ["null", "string"]))
    spec = parse_spec({"name": "demo", "data": {"format": "avro"}, "model": model})
    made = AvroEvents(spec, 4, with_registry({1: enum, 2: text}))
    records = [framed(enum, {"c": c}, 1) for c in "bza"] + [framed(text, {"c": c}, 2) for c in ("a", "z", None, "b")]
    decoded = made.decode([*records, b"\0\0\0\0\x01\x06", b"\0\0\0\0\x01\x01", b"\0\0\0\0\x02\x02\x02\xff"])
    assert decoded.events.numbers[:, 0].tolist() == [1, 0, 0, 1]
    assert [(bad.place, bad.reason) for bad in decoded.bad] == [
        *((i, "c: must be one of the categories (got 'z')") for i in (1, 4)),
        (5, "c: is null, must be one of the categories"),
        (7, "not Avro: symbol 3 of an enum with 3"),
        (8, "not Avro: symbol -1 of an enum with 3"),
        (9, "not Avro: a text is not UTF-8: invalid start byte"),
    ]


def slow(make: Callable[[], AvroEvents]) -> AvroEvents:
    """The same without numpy's way."""
    made = make()
    made._own.dtype = None
    return made


def test_the_fast_way_says_what_the_slow_one_says(tmp_path: Any) -> None:
    schema = record(("b", "boolean"), ("e", "float"), ("f", {"type": "fixed", "name": "F", "size": 7}), ("k", "double"))
    rng = np.random.default_rng(2)
    odd = [0.0, 1, 2, -1, 0.5, float("nan"), float("inf"), -float("inf"), 1e100, 1e30, 2.0**53, 2.0**53 + 2, -0.0]
    records = []
    for i in range(3000):
        k, e = rng.choice(odd, 2)
        e = float(np.float32(e)) if abs(e) < 1e38 or e != e else e * np.inf
        data = framed(schema, {"b": True, "e": e, "f": b"1234567", "k": k})
        records.append([data, data + b"!", data[:-1], data[:3], None, data][0 if i % 7 else i % 6])
    fast = AvroEvents(spec_of(schema, tmp_path), 4, DECLARED)
    assert fast._own.dtype is not None
    ours, theirs = (
        fast.decode(records),
        slow(lambda: AvroEvents(spec_of(schema, tmp_path), 4, DECLARED)).decode(records),
    )
    np.testing.assert_array_equal(ours.events.numbers, theirs.events.numbers)
    assert ours.bad == theirs.bad
    assert ours.events.n > 100
    assert len({bad.reason for bad in ours.bad}) >= 6


@pytest.mark.parametrize("k", [b"\1\0\0\0\0\0\xf0\x7f", b"\xff" * 6 + b"\xf7\xff"])
@pytest.mark.parametrize("e", [b"\1\0\x80\x7f", b"\xff\xff\xbf\xff"])
def test_a_nan_that_signals_is_a_bad_event_without_a_warning(tmp_path: Any, k: bytes, e: bytes) -> None:
    """Warnings are errors in this suite; numpy warns of such a NaN in a cast or a floor."""
    schema = record(("e", "float"), ("k", "double"))
    made, head = AvroEvents(spec_of(schema, tmp_path), 4, DECLARED), framed(schema, {"k": 0, "e": 1})[:5]
    one = np.array(1, "<f4").tobytes()
    found = made.decode([head + one + k, head + e + bytes(8), head + one + bytes(8)])
    assert (found.events.numbers.tolist(), found.places.tolist()) == ([[0, 1]], [2])
    assert [bad.reason.partition(":")[0] for bad in found.bad] == ["k", "e"]


LEAVES = st.sampled_from(["null", "boolean", "int", "long", "float", "double", "bytes", "string"])


def _named(make: Callable[[str], Any]) -> st.SearchStrategy[Any]:
    return st.uuids().map(lambda u: make(f"N{u.hex}"))


TYPES = st.recursive(
    LEAVES
    | _named(lambda n: {"type": "fixed", "name": n, "size": 5})
    | _named(lambda n: {"type": "enum", "name": n, "symbols": ["a", "b"]}),
    lambda inner: (
        inner.filter(lambda t: t != "null" and not (isinstance(t, dict) and t["type"] == "record"))
        .map(lambda t: {"type": "array", "items": t})
        | inner.map(lambda t: {"type": "map", "values": t})
        | inner.filter(lambda t: t != "null" and not isinstance(t, list)).map(lambda t: ["null", t])
        | st.tuples(st.uuids(), st.lists(inner, max_size=3)).map(
            lambda p: record(*((f"f{i}", t) for i, t in enumerate(p[1])), name=f"R{p[0].hex}")
        )
    ),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(TYPES, max_size=4), st.lists(TYPES, max_size=4))
def test_every_schema_is_read_as_fastavro_writes_it(before: list[Any], after: list[Any]) -> None:
    schema = record(
        *((f"a{i}", t) for i, t in enumerate(before)), ("k", "long"), *((f"b{i}", t) for i, t in enumerate(after)),
        ("e", "double"), name="Top",
    )  # fmt: skip
    plan = Plan(reduced(json.dumps(schema)), spec_of().fields, {}, 5)
    for value in fastavro.utils.generate_many(fastavro.parse_schema(schema), 3):
        data = framed(schema, value)
        assert plan.read(data) == [value["k"], value["e"]]
        with pytest.raises(WireError):
            plan.read(data + b"\0")
        with pytest.raises(WireError):
            plan.read(data[:-1])


MUTABLE = framed(*WRITERS["more of everything"])
PLAN = Plan(reduced(json.dumps(WRITERS["more of everything"][0])), [Field("k", "count"), Field("e", "number")], {}, 5)


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60), st.integers(5, len(MUTABLE)), st.integers(0, 20))
def test_no_bytes_break_the_reading(junk: bytes, at: int, dropped: int) -> None:
    for data in (b"\0\0\0\0\4" + junk, MUTABLE[:at] + junk + MUTABLE[at + dropped :]):
        with suppress(WireError):
            assert len(PLAN.read(data)) == 2


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 9 + b"\x7f",  # a length of nearly 2^63
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\xff" * 20,
        b"\x00" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\0" * 50,  # an array of 2^62 elements
        b"\x00" + b"\x01\x01" * 50,
    ],
)
def test_lengths_that_lie_cost_nothing(data: bytes) -> None:
    with pytest.raises(WireError):
        PLAN.read(b"\0\0\0\0\4" + data)
