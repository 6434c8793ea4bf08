"""Reasons are counted by what is wrong, and events are judged before they are sent as a worker judges them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from streaminfer.bus.protocol import Output, Unavailable
from streaminfer.bus.sqlite.writer import SqliteWriter
from streaminfer.runtime import names
from streaminfer.runtime.dead_letters import tally
from streaminfer.runtime.dead_letters.tally import Judge, Tally
from streaminfer.runtime.loading.files import encode
from streaminfer.runtime.loading.partitioning import Dealer
from streaminfer.runtime.loading.produce import Loader
from streaminfer.spec import Spec, parse_spec
from streaminfer.wire.avro import Schemas
from streaminfer.wire.dead_letters import gist, several
from streaminfer.wire.events.formats import format_of


def spec_of(form: str = "json", **more: Any) -> Spec:
    model = {"kind": "linear_regression", "features": ["a"], "target": "b"}
    return parse_spec({"name": "demo", "data": {"format": form, "partitions": 2}, "model": model, **more})


@pytest.mark.parametrize(
    ("reason", "short", "many"),
    [
        ("a: expected a number, got 'ask'", "a: expected a number", "a: expected a number, got 'ask', ..."),
        ("a: must be 0 or 1 (got 2)", "a: must be 0 or 1", "a: must be 0 or 1 (got 2, ...)"),
        ("rows 3, 7-9 of 512: k: must be 0 or 1 (got 2)", "k: must be 0 or 1", "k: must be 0 or 1 (got 2, ...)"),
        (
            "not JSON: Expecting value: line 1 column 9 (char 8)",
            "not JSON: Expecting value",
            "not JSON: Expecting value",
        ),
        ("a: is missing", "a: is missing", "a: is missing"),
        ("row has 2 fields, the header has 3", *["row has 2 fields, the header has 3"] * 2),
    ],
)
def test_reasons_without_what_differs(reason: str, short: str, many: str) -> None:
    assert gist(reason) == short
    assert several(reason) == many


def test_the_commonest_comes_first_and_one_value_is_shown_as_it_is() -> None:
    counted = Tally()
    for reason in ("b: is missing", "a: expected a number, got 'x'", "a: expected a number, got 'y'", "c: is missing"):
        counted.add(reason, b"v" * 1000)
    found = [(each.count, each.reason) for each in counted.reasons()]
    assert found == [(2, "a: expected a number, got 'x', ..."), (1, "b: is missing"), (1, "c: is missing")]
    assert counted.commonest == "a: expected a number, got 'x', ... (2)"
    assert [len(each.example or b"") for each in counted.reasons()] == [tally.EXAMPLE] * 3
    both = Tally()
    both.add("a: expected a number, got 'x'", None)
    both.add_all(counted)
    assert (both.count, both.commonest) == (5, "a: expected a number, got 'x', ... (3)")
    assert Tally().commonest == ""


def test_reasons_without_end_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MOST_REASONS", 3)
    counted = Tally()
    for i in range(10):
        counted.add(f"schema id {i} is unknown", None)
    assert counted.count == 10
    assert counted.commonest == "other reasons (7)"


ROWS: list[Any] = [{"a": 1, "b": 2}, {"a": "", "b": 2}, {"a": 1}, {"a": 1e200, "b": 1}, {"a": 3, "b": 4}]


@pytest.mark.parametrize("form", ["json", "avro", "rows"])
@pytest.mark.parametrize("schemas", [Schemas(), Schemas({"events": 77})], ids=["declared", "registered"])
def test_what_will_be_a_dead_letter(form: str, schemas: Schemas) -> None:
    """By the worker's own check, in every format, whatever id a registry gave."""
    spec = spec_of(form)
    outputs = Dealer(spec).outputs(format_of(spec, schemas), "demo.events", 2, 0, [[encode(row) for row in ROWS]])
    refused = Judge(spec, schemas).refused(outputs)
    assert refused.count == 3
    told = [re.sub(r"^(not Avro|not rows), but JSON: |^rows 1 of 3: ", "", each.reason) for each in refused.reasons()]
    assert sorted(told) == [
        "a: is empty, expected a number",
        "a: must be a number of size at most 1e+100 (got 1e+200)",
        "b: is missing",
    ]


@pytest.mark.parametrize("took_effect", [True, False])
def test_a_loader_counts_each_bad_row_once_whatever_the_bus_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took_effect: bool
) -> None:
    data = tmp_path / "data.csv"
    data.write_text("a,b\n" + "1,2\n" * 2000 + "1,\n" * 500 + "7\n" * 100)
    real, calls = SqliteWriter.commit, []

    def commit(self: SqliteWriter, outputs: Sequence[Output], *rest: Any) -> list[int]:
        calls.append(len(outputs))
        if len(calls) != 3:
            return real(self, outputs, *rest)
        if took_effect:
            real(self, outputs, *rest)
        raise Unavailable("away")

    monkeypatch.setattr(SqliteWriter, "commit", commit)
    spec = spec_of()
    with EmbeddedBus(tmp_path / "bus") as bus:
        names.create_topics(spec, bus)
        loader = Loader(spec, bus, data, judged=True)
        *_, last = loader.run()
    assert last.rows == 2600
    assert [(each.count, each.reason) for each in loader.refused.reasons()] == [
        (500, "b: is empty, expected a number"), (100, "row has 1 field, the header has 2")
    ]  # fmt: skip
