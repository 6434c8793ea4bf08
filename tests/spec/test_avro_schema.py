"""Avro schemas in specs: what is read, what is refused and in which words, what changes the fingerprint."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.spec import Spec, SpecError, load_spec, parse_spec
from streaminfer.spec.avro_schema import MAX_BYTES, MAX_DEPTH, MAX_FIXED, SchemaError, reduced

GOOD: dict[str, Any] = {
    "type": "record", "name": "Flat", "namespace": "homes", "doc": "a flat",
    "fields": [{"name": "k", "type": "long", "doc": "count"}, {"name": "id", "type": "string"}],
}  # fmt: skip


def nested(depth: int) -> Any:
    schema: Any = "long"
    for i in range(depth):
        schema = {"type": "record", "name": f"R{i}", "fields": [{"name": "x", "type": schema}]}
    return schema


def doubling(levels: int) -> Any:
    """Each type twice in the next: small as a text, 2^levels types when it is spread out."""
    fields: list[Any] = [{"name": "k", "type": "long"}]
    inner: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "long"}]}
    for i in range(1, levels):
        uses = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{i - 1}"}]
        inner = {"type": "record", "name": f"R{i}", "fields": uses}
    return {"type": "record", "name": "Top", "fields": [*fields, {"name": "x", "type": inner}]}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "is not JSON: "),
        ("[" * 100_000, "is not JSON: "),
        (" " * (MAX_BYTES + 1), f"has {MAX_BYTES + 1} characters, more than {MAX_BYTES}"),
        ('"long"', "must be a record with named fields"),
        ("[]", "has a union without branches"),
        ('["null", ["null"]]', "has a union without branches, or with a union in it"),
        ("5", "has a type that is not a name, a list or a mapping"),
        ('{"type": "nope"}', "uses a name that is not a type"),
        ('{"type": "record", "fields": []}', "has something that should be a name"),
        ('{"type": "record", "name": "R"}', "has fields that are not a list"),
        ('{"type": "record", "name": "R", "fields": [5]}', "has a field that is not a mapping"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}',
         "has a field twice in one record"),
        ('[{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 1}]',
         "declares a name twice"),
        ('{"type": "fixed", "name": "F", "size": -1}', f"has a fixed type whose size is not from 0 to {MAX_FIXED}"),
        ('{"type": "enum", "name": "E", "symbols": [1]}', "has something that should be a symbol"),
        ('{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}', "has an array whose elements"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}',
         "is recursive: a type holds itself"),
        (json.dumps(nested(MAX_DEPTH + 1)), "must be nested at most"),
        (json.dumps(doubling(14)), "must be nested at most"),
    ],
)  # fmt: skip
def test_refused(schema: str, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        reduced(schema)
    assert str(caught.value).startswith(reason)


def test_types_used_again_stand_where_they_are_used() -> None:
    found = reduced(json.dumps(doubling(4)))
    assert json.dumps(found).count('"long"') == 9
    fastavro.parse_schema(found)  # no name stands twice


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(
            ["record", "enum", "fixed", "array", "map", "null", "long", "R", "type", "a"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
            st.sampled_from(["type", "name", "namespace", "fields", "items", "values", "symbols", "size", "default"]),
            inner, max_size=5),
        max_leaves=20,
    )
)  # fmt: skip
def test_no_document_breaks_it(document: Any) -> None:
    with suppress(SchemaError):
        assert isinstance(reduced(json.dumps(document)), dict)


def load(folder: Path, schema: Any = GOOD, **data: Any) -> Spec:
    (folder / "homes").mkdir(exist_ok=True)
    (folder / "homes" / "flat.avsc").write_text(schema if isinstance(schema, str) else json.dumps(schema))
    document = {
        "name": "demo",
        "data": {"format": "avro", "schema": "homes/flat.avsc", **data},
        "model": {"kind": "poisson", "field": "k"},
    }
    (folder / "spec.yaml").write_text(json.dumps(document))
    return load_spec(folder / "spec.yaml")


def fails(folder: Path, schema: Any = GOOD, **data: Any) -> str:
    with pytest.raises(SpecError) as caught:
        load(folder, schema, **data)
    return str(caught.value).removeprefix(f"{folder / 'spec.yaml'}: ")


def test_the_file_is_looked_for_beside_the_spec(tmp_path: Path) -> None:
    spec = load(tmp_path)
    assert json.loads(spec.event_schema) == GOOD
    assert spec.document["data"]["schema"] == "homes/flat.avsc"


def test_errors_of_the_file_are_errors_of_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "none.avsc"
    assert fails(tmp_path, "x").startswith("data.schema: is not a schema that can be read here: is not JSON: ")
    other = {**GOOD, "fields": GOOD["fields"][1:]}
    assert fails(tmp_path, other) == (
        "data.schema: is not a schema that can be read here: k: is missing in the schema (got 'homes/flat.avsc')"
    )
    text = json.dumps(GOOD).replace('"long"', '"string"')
    assert "k: is of type string, it must be one of double, float, int, long" in fails(tmp_path, text)
    with pytest.raises(SpecError) as caught:
        parse_spec(
            {"name": "d", "data": {"format": "avro", "schema": str(path)}, "model": {"kind": "poisson", "field": "k"}},
            folder=tmp_path,
        )
    assert str(caught.value).startswith(f"spec: data.schema: must name a file, and {path} is not a file (got '")
    (tmp_path / "binary.avsc").write_bytes(b"\xff")
    with pytest.raises(SpecError, match="names a file that cannot be read as text"):
        parse_spec(
            {"name": "d", "data": {"format": "avro", "schema": "binary.avsc"},
             "model": {"kind": "poisson", "field": "k"}}, folder=tmp_path,
        )  # fmt: skip


@pytest.mark.parametrize("option", [{"schema": "a.avsc"}, {"schema_id": 5}])
@pytest.mark.parametrize("form", ["json", "rows"])
def test_schemas_are_for_avro(form: str, option: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec({"name": "d", "data": {"format": form, **option}, "model": {"kind": "poisson", "field": "k"}})
    ((name, value),) = option.items()
    assert str(caught.value) == (
        f"spec: data.{name}: must only be set with data.format: avro, and the format is {form}; leave it out "
        f"(got {value!r})"
    )


def test_rows_hold_no_categories() -> None:
    model = {"kind": "categorical", "field": "c", "categories": ["a", "b"]}
    with pytest.raises(SpecError) as caught:
        parse_spec({"name": "d", "data": {"format": "rows"}, "model": model})
    assert str(caught.value) == (
        "spec: data.format: must be json or avro: rows holds numbers only, and c of the model is a category "
        "(got 'rows')"
    )


def test_the_fingerprint_has_what_decides_how_bytes_are_read(tmp_path: Path) -> None:
    same = [GOOD, json.dumps(GOOD, indent=4), {**GOOD, "doc": "other"}, {**GOOD, "name": "Home", "namespace": "x"}]
    assert len({load(tmp_path, schema).fingerprint for schema in same}) == 1
    float_k = json.dumps(GOOD).replace('"long"', '"double"')
    swapped = {**GOOD, "fields": GOOD["fields"][::-1]}
    found = [load(tmp_path, schema).fingerprint for schema in (GOOD, float_k, swapped)]
    found += [load(tmp_path, schema_id=5).fingerprint, load(tmp_path, schema_id=6).fingerprint]
    model = {"kind": "poisson", "field": "k"}
    found += [parse_spec({"name": "d", "data": {"format": f}, "model": model}).fingerprint
              for f in ("json", "avro", "rows")]  # fmt: skip
    assert len(set(found)) == len(found)


MILLIS: Any = {"type": "long", "logicalType": "timestamp-millis"}
BY_TIME = {"inference": {"forget": {"half_life_seconds": 60}}}


def dated(folder: Path, at: Any, **sections: Any) -> Spec:
    fields = [{"name": "k", "type": "long"}, {"name": "at", "type": at}]
    (folder / "e.avsc").write_text(json.dumps({"type": "record", "name": "E", "fields": fields}))
    data = {"format": "avro", "timestamp": "at", "schema": "e.avsc"}
    document = {"name": "d", "data": data, "model": {"kind": "poisson", "field": "k"}, **sections}
    return parse_spec(document, folder=folder)


def test_the_unit_of_times_is_in_the_fingerprint_only_where_times_are_read(tmp_path: Path) -> None:
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    other = {"type": "long", "logicalType": "local-timestamp-eons"}
    found = [dated(tmp_path, at, **BY_TIME).fingerprint for at in ("long", MILLIS, micros, ["null", MILLIS])]
    assert len(set(found)) == 4
    assert dated(tmp_path, other, **BY_TIME).fingerprint == found[0]
    assert len({dated(tmp_path, at).fingerprint for at in ("long", MILLIS, micros)}) == 1


def test_the_derived_schema_has_the_time_as_a_double_only_where_it_is_read() -> None:
    data = {"format": "avro", "timestamp": "t.at"}
    document = {"name": "d", "data": data, "model": {"kind": "poisson", "field": "k"}}
    names = [each["name"] for each in json.loads(parse_spec(document).event_schema)["fields"]]
    assert names == ["k"]
    k, t = json.loads(parse_spec({**document, **BY_TIME}).event_schema)["fields"]
    assert (k["name"], k["type"], t["name"]) == ("k", "double", "t")
    assert t["type"]["fields"] == [{"name": "at", "type": "double"}]


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("float", "is of type float, it must be one of double, int, long, string"),
        (["null", "bytes"], "is of type bytes, it must be one of double, int, long, string"),
        (["int", MILLIS], "is a whole number in several units, it must be in one"),
    ],
    ids=str,
)
def test_types_that_hold_no_times(at: Any, reason: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        dated(tmp_path, at, **BY_TIME)
    rule = f"is not a schema that can be read here: timestamp (from at): {reason}"
    assert str(caught.value) == f"spec: data.schema: {rule} (got 'e.avsc')"
    assert dated(tmp_path, at).time_field is None, "times that nobody reads may be anything"


@pytest.mark.parametrize(
    ("field", "paths", "reason"),
    [
        (
            "my count",
            {},
            "my count: must have a name that Avro allows: letters, digits and _, not beginning with a digit",
        ),
        ("k", {"k": "a", "e": "a.b"}, "e (from a.b): is inside the value of another field"),
        ("k", {"k": "a.b", "e": "a"}, "e (from a): is a value, but another field is inside it"),
    ],
)
def test_fields_that_make_no_schema(field: str, paths: dict[str, str], reason: str) -> None:
    model = {"kind": "poisson", "field": field, "exposure": "e"}
    with pytest.raises(SpecError) as caught:
        parse_spec({"name": "d", "data": {"format": "avro", "fields": paths}, "model": model})
    assert str(caught.value) == f"spec: data.fields: is not a schema that can be read here: {reason} (got {paths!r})"
