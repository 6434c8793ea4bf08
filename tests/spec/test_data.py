"""The section `data`: whose topic, and the places of the fields in an event."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer.models.checks import check
from streaminfer.models.events import Field
from streaminfer.spec import Spec, parse_spec
from tests.spec.documents import document


def _spec(**data: Any) -> Spec:
    return parse_spec(document("linear_regression", data=data))


def test_the_specs_own_topic_has_four_partitions_and_somebody_elses_its_own() -> None:
    assert (_spec().data.topic, _spec().data.partitions) == (None, 4)
    assert (_spec(topic=None, partitions=7).data.topic, _spec(partitions=7).data.partitions) == (None, 7)
    assert (_spec(topic="orders").data.topic, _spec(topic="orders").data.partitions) == ("orders", None)


def test_the_filled_document_means_the_same() -> None:
    spec = _spec(topic="orders", fields={"a": "x.y", "y": "y"})
    assert spec.document["data"] == {
        "format": "json", "partitions": None, "topic": "orders", "fields": {"a": "x.y", "y": "y"},
        "timestamp": None, "schema": None, "schema_id": None,
    }  # fmt: skip
    again = parse_spec(spec.document)
    assert (again.fingerprint, again.fields) == (spec.fingerprint, spec.fields)


def test_fields_are_where_the_spec_says_and_else_under_their_names() -> None:
    spec = _spec(fields={"a": "house.size.m2", "y": "price"})
    assert [field.path for field in spec.fields] == [("house", "size", "m2"), ("b",), ("price",)]
    assert [field.path for field in spec.model.fields] == [("a",), ("b",), ("y",)]


def test_two_fields_may_be_in_one_place() -> None:
    spec = _spec(fields={"a": "x", "b": "x"})
    assert check(spec.fields, [{"x": 2, "y": 3}]).events.numbers.tolist() == [[2, 2, 3]]


NESTED = (Field("size", "number", path=("house", "size")), Field("colour", "category", ("red", "blue"), ("c",)))
LABEL = "size (from house.size)"


def test_values_are_taken_from_their_places() -> None:
    rows = [{"house": {"size": 3, "x": []}, "c": "blue"}, {"house": {"size": 4.5}, "c": "red", "size": "no"}]
    found = check(NESTED, rows)
    assert (found.events.numbers.tolist(), found.rejected) == ([[3, 1], [4.5, 0]], ())


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"c": "red"}, f"{LABEL}: house is missing"),
        ({"house": None, "c": "red"}, f"{LABEL}: house must be an object"),
        ({"house": [1], "c": "red"}, f"{LABEL}: house must be an object"),
        ({"house": "size", "c": "red"}, f"{LABEL}: house must be an object"),
        ({"house": {}, "c": "red"}, f"{LABEL}: is missing"),
        ({"house": {"size": None}, "c": "red"}, f"{LABEL}: is null, expected a number"),
        ({"house": {"size": {"size": 1}}, "c": "red"}, f"{LABEL}: expected a number, got an object of 1 field"),
        ({"house": {"size": True}, "c": "red"}, f"{LABEL}: expected a number, got True"),
        ({"house": {"size": 1}, "c": 0}, "colour (from c): must be one of the categories (got 0)"),
        ({"house": {"size": 1}, "colour": "red"}, "colour (from c): is missing"),
        ([1], "an event must be an object with named fields (got a list of 1 value)"),
    ],
)
def test_what_is_wrong_is_said_with_the_place(row: Any, reason: str) -> None:
    good = {"house": {"size": 1}, "c": "red"}
    found = check(NESTED, [good, row, good])
    assert found.events.numbers.tolist() == [[1, 0], [1, 0]]
    assert [(each.row, each.reason) for each in found.rejected] == [(1, reason)]
