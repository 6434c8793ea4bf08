"""Every data format, from a file through `up --until-idle`: the exact posterior, and bad events byte for byte."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from streaminfer import connect, load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from streaminfer.wire.events.rows import Table, pack
from tests.faults import answers
from tests.faults.buses import kafka_later
from tests.faults.programs import Programs, document

EVENTS = 3000
ORDER: dict[str, Any] = {
    "type": "record", "name": "Order",
    "fields": [
        {"name": "id", "type": ["null", "string"], "default": None},
        {"name": "t", "type": "double"},
        {"name": "b", "type": ["null", "double"]},
        {"name": "a", "type": "double"},
    ],
}  # fmt: skip
"""Not of one width, and in another order than the file: the slow way. Without a schema file it is the fast one."""


def order(**values: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), {"id": None, **values})
    return b"\0\0\0\0\x07" + out.getvalue()


def table(*rows: list[float]) -> bytes:
    return pack(3, Table(("a", "b", "t"), np.array(rows)))


NUMBER = "must be a number of size at most 1e+100"
FORMS: dict[str, tuple[dict[str, Any], list[tuple[bytes, str]]]] = {
    "avro": (
        {"format": "avro"},
        [(b"\0\0\0\0\4" + bytes(23), "not Avro: the record ends too early"),
         (b'{"a": 1}', "not Avro, but JSON: b: is missing")],
    ),
    "schema file": (
        {"format": "avro", "schema": "order.avsc", "schema_id": 7},
        [(order(a=1.0, b=None, t=1.0), "b: is null, expected a number"),
         (b"\0\0\0\0\6" + order(a=1.0, b=1.0, t=1.0)[5:],
          "schema id 6 is not the 7 of data.schema_id, and there is no registry")],
    ),
    "rows": (
        {"format": "rows"},
        [(table([1, 1, np.nan], [1, np.inf, 1]),
          f"rows 0 of 2: t: {NUMBER} (got nan); rows 1 of 2: b: {NUMBER} (got inf)"),
         (table([1, 1, 1])[:-1], "not rows: the record ends too early for its schema")],
    ),
}  # fmt: skip
"""The section `data`, and bad records with their reasons."""


def check(programs: Programs, url: str, form: str) -> None:
    data, bad = FORMS[form]
    case = answers.linear_regression(EVENTS)
    (programs.folder / "order.avsc").write_text(json.dumps(ORDER))
    spec = case.write_spec(programs.folder / "spec.yaml", "formats", 3, data, minibatch=16)
    with open_bus(url) as bus:
        names.create_topics(load_spec(spec), bus)
        bus.publish([Output("formats.events", value, partition=i) for i, (value, _) in enumerate(bad)])
    file = case.write_csv(programs.folder / "data.csv")
    programs.run("up", spec, "--data", file, "--workers", 2, "--until-idle", "--bus", url)
    found = document(spec, url)
    case.check(found)
    letters = programs.run("dead-letters", spec, "--json", "--bus", url).documents
    assert [base64.b64decode(letter["value_base64"]) for letter in letters] == [value for value, _ in bad]
    for letter, (_, reason) in zip(letters, bad, strict=True):
        assert letter["reason"].startswith(reason)


@pytest.mark.parametrize("form", ["rows", "avro"])
def test_equals_the_batch_posterior(programs: Programs, bus_url: str, form: str) -> None:
    check(programs, bus_url, form)


@kafka_later
def test_equals_it_with_a_schema_file(programs: Programs, bus_url: str) -> None:
    check(programs, bus_url, "schema file")


@kafka_later
def test_bad_rows_among_good_ones_are_sent_again_once(programs: Programs, bus_url: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    model = {"kind": "gaussian", "fields": ["x"]}
    spec.write_text(json.dumps({"name": "some", "data": {"format": "rows", "partitions": 1}, "model": model}))
    rows = [{"x": 1e200 if i % 5 == 0 else i} for i in range(1000)]
    with connect(bus_url) as connection:
        assert connection.produce(load_spec(spec), rows) == 1000
    for again in (1, 2):
        # The second time there is nothing but bad rows.
        programs.run("up", spec, "--until-idle", "--bus", bus_url, code=again - 1)
        found = document(spec, bus_url)
        assert (found["n_events"], found["n_dead_lettered"]) == (800, 200 * again)
        listed = programs.run("dead-letters", spec, "--retry", "--json", "--bus", bus_url).documents
        assert [letter["reason"][:23] for letter in listed] == (
            ["rows 0, 5, 10, 15, 20, ", "rows 3, 8, 13, 18, 23, "] if again == 1
            else ["rows 0-102 of 103: x: m", "rows 0-96 of 97: x: mus"]
        )  # fmt: skip
