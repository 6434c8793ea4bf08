"""When two schema texts are one: by Avro's parsing canonical form, checked against fastavro's."""

from __future__ import annotations

import json

import pytest
from fastavro.schema import to_parsing_canonical_form

from streaminfer.runtime.registry.canonical import same
from streaminfer.wire.avro import schema_text

RECORD = {"type": "record", "name": "a.R", "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": "bytes"}]}
X, Y = RECORD["fields"]
SAME = [
    {**RECORD, "doc": "words"},
    {**RECORD, "name": "R", "namespace": "a"},
    {**RECORD, "fields": [{**X, "type": {"type": "long", "logicalType": "timestamp-millis"}}, {**Y, "doc": "w"}]},
]
DIFFERENT = [
    {**RECORD, "name": "b.R"},
    {**RECORD, "fields": [Y, X]},
    {**RECORD, "fields": [X]},
    {**RECORD, "fields": [{**X, "type": "int"}, Y]},
    {**RECORD, "fields": [{**X, "type": ["null", "long"]}, Y]},
    {**RECORD, "fields": [{**X, "type": {"type": "array", "items": "long"}}, Y]},
    {**RECORD, "fields": [{**X, "type": {"type": "enum", "name": "E", "symbols": ["A"]}}, Y]},
    "long",
]


@pytest.mark.parametrize("other", [*SAME, *DIFFERENT])
def test_the_same_as_by_the_canonical_form(other: object) -> None:
    expected = to_parsing_canonical_form(RECORD) == to_parsing_canonical_form(other)
    assert same(json.dumps(RECORD), json.dumps(other)) is expected
    assert expected is (other in SAME)


@pytest.mark.parametrize("topic", ["increments", "posterior"])
def test_our_schemas_are_the_same_as_their_canonical_form(topic: str) -> None:
    text = schema_text(topic)
    assert same(text, to_parsing_canonical_form(json.loads(text)))
    assert same(text, json.dumps(json.loads(text)))
    assert not same(schema_text("increments"), schema_text("posterior"))


@pytest.mark.parametrize(
    "text", ["", "no JSON", "1", "null", "{}", '{"type": "record"}', '{"type": {"type": 3}}', "[" * 99_999]
)
def test_what_is_no_schema_is_the_same_as_none(text: str) -> None:
    assert not same(text, schema_text("posterior"))
    assert not same(text, text)
