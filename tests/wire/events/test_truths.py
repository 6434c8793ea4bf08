"""Values that are true or false, and categories that are numbers, in the formats avro and rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streaminfer.spec import Spec, SpecError, parse_spec
from streaminfer.wire.events.formats import format_of
from streaminfer.wire.events.rows import unpack
from tests.wire.events.test_avro_events import framed, record

ROWS = [b'{"y":true}', b'{"y":"False"}', b'{"y":1}', b'{"y":0.0}', b'{"y":"TRUE"}']
EXPECTED = [[1], [0], [1], [0], [1]]


def coin(tmp_path: Path | None = None, kind: Any = None, form: str = "avro") -> Spec:
    data: dict[str, Any] = {"format": form}
    if tmp_path is not None:
        (tmp_path / "e.avsc").write_text(json.dumps(record(("y", kind))))
        data["schema"] = str(tmp_path / "e.avsc")
    return parse_spec({"name": "demo", "data": data, "model": {"kind": "bernoulli", "field": "y"}})


@pytest.mark.parametrize("kind", ["boolean", ["null", "boolean"], "int", "double", ["boolean", "int"]], ids=str)
def test_true_and_false_are_written_as_the_schema_has_them(tmp_path: Path, kind: Any) -> None:
    made = format_of(coin(tmp_path, kind))
    records = made.encode(ROWS)
    truths = [True, False, True, False, True]
    written = truths if "boolean" in kind else [int(each) for each in truths]
    assert records == [framed(record(("y", kind)), {"y": value}) for value in written]
    decoded = made.decode(records)
    assert (decoded.events.numbers.tolist(), decoded.bad) == (EXPECTED, [])


def test_without_a_schema_they_are_doubles() -> None:
    decoded = format_of(coin()).decode(format_of(coin()).encode(ROWS))
    assert (decoded.events.numbers.tolist(), decoded.bad) == (EXPECTED, [])


@pytest.mark.parametrize("kind", ["boolean", ["null", "boolean"]], ids=str)
def test_a_byte_that_is_neither_true_nor_false_is_a_dead_letter(tmp_path: Path, kind: Any) -> None:
    good = framed(record(("y", kind)), {"y": True})
    decoded = format_of(coin(tmp_path, kind)).decode([good, good[:-1] + b"\2", good])
    assert decoded.events.numbers.tolist() == [[1], [1]]
    assert [(each.place, each.reason) for each in decoded.bad] == [(1, "y: must be 0 or 1, or true or false (got 2)")]


def test_a_boolean_of_a_schema_is_for_0_and_1_alone(tmp_path: Path) -> None:
    (tmp_path / "e.avsc").write_text(json.dumps(record(("k", "boolean"))))
    document = {"name": "demo", "data": {"format": "avro", "schema": str(tmp_path / "e.avsc")}}
    with pytest.raises(SpecError, match="k: is of type boolean"):
        parse_spec({**document, "model": {"kind": "poisson", "field": "k"}})


def test_rows_have_1_and_0() -> None:
    made = format_of(coin(form="rows"))
    (packed,) = made.encode(ROWS)
    assert unpack(packed).values.tolist() == EXPECTED


@pytest.mark.parametrize("kind", ["string", {"type": "enum", "name": "E", "symbols": ["a1", "a2"]}], ids=str)
def test_a_category_that_is_a_whole_number_is_written_as_its_text(tmp_path: Path, kind: Any) -> None:
    (tmp_path / "e.avsc").write_text(json.dumps(record(("c", kind))))
    data = {"format": "avro", "schema": str(tmp_path / "e.avsc")}
    model = {"kind": "categorical", "field": "c", "categories": ["1", "2", "a1"]}
    made = format_of(parse_spec({"name": "demo", "data": data, "model": model}))
    decoded = made.decode(made.encode([b'{"c":2}', b'{"c":"a1"}']))
    assert decoded.events.numbers.tolist() == ([[1], [2]] if kind == "string" else [[2]])
