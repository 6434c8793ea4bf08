"""The section `key`: short and long, what it changes in the fingerprint, and what it cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer import parse_spec
from streaminfer.spec.key import MAX_COLUMNS, RECORD, tape_bytes
from streaminfer.spec.load import SpecError
from streaminfer.spec.spec import Spec
from tests.spec.documents import document

FILLED = {"field": "city", "shards": 1, "expire_after": None, "default": "prior"}


def test_a_name_is_short_for_the_section() -> None:
    short, long = parse_spec(document(key="city")), parse_spec(document(key={"field": "city"}))
    assert short == long
    assert short.document["key"] == FILLED
    assert parse_spec(dict(short.document)) == short


def test_without_a_key_there_is_none() -> None:
    spec = parse_spec(document(key=None))
    assert spec == parse_spec(document())
    assert (spec.key, spec.shards, "key" in spec.document) == (None, 1, False)


def test_what_the_fingerprint_is_over() -> None:
    base = {"field": "city"}
    variants: list[dict[str, Any]] = [
        {}, {"key": base}, {"key": {"field": "town"}}, {"key": {**base, "shards": 2}},
        {"key": {**base, "expire_after": 5}}, {"key": {**base, "default": "pooled"}},
        {"key": base, "data": {"fields": {"city": "a.b"}}},
    ]  # fmt: skip
    assert len({parse_spec(document(**each)).fingerprint for each in variants}) == len(variants)
    moved = parse_spec(document(key="city", data={"fields": {"city": "town"}}))
    assert moved.fingerprint == parse_spec(document(key="town")).fingerprint


WRONG = {
    "key.field: must be a string": 7,
    "key.field: is required": {"shards": 2},
    "key.shard: is not a known key; did you mean 'shards'?": {"field": "city", "shard": 2},
    "key.shards: must be a whole number at least 1 and at most 256": {"field": "city", "shards": 0},
    "key.expire_after: must be a number": {"field": "city", "expire_after": 0},
    "key.default: is not a known value": {"field": "city", "default": "none"},
}


@pytest.mark.parametrize("rule", WRONG)
def test_mistakes_are_told(rule: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(document(key=WRONG[rule]))
    assert rule in str(caught.value)


def test_a_model_with_too_many_statistics_is_refused() -> None:
    model = {"kind": "gaussian", "fields": [f"x{i}" for i in range(320)]}
    with pytest.raises(SpecError, match="key: needs a model of at most 45056 statistics for each key"):
        parse_spec({"name": "demo", "model": model, "key": "city"})


def test_places_of_the_key_and_of_nothing() -> None:
    spec = parse_spec(document(key="city", data={"fields": {"city": "a.b"}}))
    assert spec.key_field is not None
    assert spec.key_field.path == ("a", "b")
    with pytest.raises(SpecError, match=r"data.fields.town: is not a known field of the model"):
        parse_spec(document(key="city", data={"fields": {"town": "a.b"}}))


def test_avro_keys_may_be_texts_and_whole_numbers() -> None:
    derived = parse_spec(document(key="city", data={"format": "avro"}))
    assert '"name": "city", "type": "string"' in derived.event_schema


@pytest.mark.parametrize(("form", "most"), [("json", 100_000), ("rows", 256)])
def test_a_minibatch_has_a_bound(form: str, most: int) -> None:
    given = {"data": {"format": form}, "key": "city"}
    assert parse_spec(document(**given, inference={"minibatch": most})).inference.minibatch == most
    with pytest.raises(SpecError, match=f"inference.minibatch: must be at most {most} with a key"):
        parse_spec(document(**given, inference={"minibatch": most + 1}))


def test_a_minibatch_of_different_keys_fits_an_increment() -> None:
    wide = {"kind": "gaussian", "fields": [f"x{i}" for i in range(180)]}
    most = MAX_COLUMNS // (2 + 256 + 8 * (5 + 181**2))
    given = {"name": "demo", "model": wide, "key": "city"}
    assert parse_spec({**given, "inference": {"minibatch": most}}).inference.minibatch == most
    with pytest.raises(SpecError, match=f"inference.minibatch: must be at most {most} with a key"):
        parse_spec({**given, "inference": {"minibatch": most + 1}})


def test_a_record_of_rows_of_different_keys_fits_an_increment() -> None:
    def spec(fields: int) -> Spec:
        model = {"kind": "gaussian", "fields": [f"x{i}" for i in range(fields)]}
        return parse_spec({"name": "demo", "data": {"format": "rows"}, "model": model, "key": "city"})

    with pytest.raises(SpecError, match=r"data\.format: cannot be rows with a key and 10201 statistics for each"):
        spec(100)
    for fields in (1, 10, 50, 58):
        size, columns = spec(fields).model.size, fields + 1
        assert ((RECORD + tape_bytes(size, columns)) // (8 * columns)) * (2 + 17 + 8 * (5 + size)) <= MAX_COLUMNS
