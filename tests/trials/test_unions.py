"""Avro events with unions: null among numbers, branches that are not numbers, and branches that do not exist."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import fastavro
import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime import names
from tests.faults.programs import Programs, document

EVENTS = 4000
NOTE = {"type": "record", "name": "Note", "fields": [{"name": "by", "type": ["null", "string"]}]}
FIELDS = [
    {"name": "id", "type": ["null", "string", "long"]},
    {"name": "k", "type": ["null", "int", "double"]},
    {"name": "note", "type": ["null", NOTE, {"type": "map", "values": ["null", "double"]}]},
    {"name": "e", "type": ["double", "null"]},
]
SCHEMA = {"type": "record", "name": "Event", "fields": FIELDS}
NOTES: list[Any] = [None, {"by": None}, {"by": "ö"}, {"a": None, "b": 2.5}, {}]
NUMBER = "must be a whole number from 0 to 2^53"
BAD: list[tuple[Any, Any, str]] = [
    (None, 1.0, "k: is null"),
    (2.5, 1.0, f"k: {NUMBER}"),
    (-1, 1.0, f"k: {NUMBER}"),
    (3, None, "e: is null"),
    (3, -1.0, "e: "),
]
"""Values of k and e that are not events of the model, and how the reason begins."""


def write_spec(folder: Path, schema: dict[str, Any]) -> Path:
    (folder / "event.avsc").write_text(json.dumps(schema))
    path = folder / "spec.yaml"
    data = {"format": "avro", "schema": "event.avsc", "schema_id": 7, "partitions": 2}
    model = {"kind": "poisson", "field": "k", "exposure": "e"}
    path.write_text(json.dumps({"name": "unions", "data": data, "model": model, "inference": {"minibatch": 16}}))
    return path


def framed(k: Any, e: Any, note: Any = None, id_: Any = None) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), {"id": id_, "k": k, "note": note, "e": e})
    return b"\0\0\0\0\x07" + out.getvalue()


@pytest.mark.long
def test_numbers_in_unions_are_events_and_other_branches_are_dead_letters(programs: Programs, bus_url: str) -> None:
    spec, drawn = write_spec(programs.folder, SCHEMA), random.Random(8)
    good = [(drawn.choice([i % 9, float(i % 9)]), drawn.choice([0.5, 1.0, 2.0])) for i in range(EVENTS)]
    records = [framed(k, e, drawn.choice(NOTES), drawn.choice([None, "a", 5])) for k, e in good]
    wrong = [(framed(k, e, drawn.choice(NOTES)), reason) for k, e, reason in BAD]
    head = framed(1, 1.0)[:5]
    # The id is null, then branch 3 of k, which has three; -1; and a body that ends inside the union.
    wrong += [(head + body, "not Avro: ") for body in (b"\0\6\2\0\0" + bytes(8), b"\0\1\2\0\0" + bytes(8), b"\0\2")]
    for i, (record, _) in enumerate(wrong):
        records.insert(200 * (i + 1), record)
    with open_bus(bus_url) as bus:
        names.create_topics(load_spec(spec), bus)
        bus.publish([Output("unions.events", record, partition=i % 2) for i, record in enumerate(records)])
    programs.run("up", spec, "--workers", 2, "--until-idle", "--bus", bus_url)
    found = document(spec, bus_url)
    assert (found["n_events"], found["n_dead_lettered"], found["n_lost"]) == (EVENTS, len(wrong), 0)
    assert found["natural"] == pytest.approx([1 + sum(k for k, _ in good), 1 + sum(e for _, e in good)], rel=1e-9)
    reasons = [letter["reason"] for letter in programs.run("dead-letters", spec, "--json", "--bus", bus_url).documents]
    for _, begin in wrong:
        match = next((reason for reason in reasons if reason.startswith(begin)), None)
        assert match is not None, f"no {begin!r} is left among {reasons}"
        reasons.remove(match)


@pytest.mark.long
@pytest.mark.parametrize("branches", [["null", "int", "string"], ["null", "string"], ["null"], []], ids=str)
def test_a_union_with_what_is_no_number_is_refused_before_anything_runs(
    programs: Programs, branches: list[str]
) -> None:
    fields = [{"name": "k", "type": branches}, {"name": "e", "type": "double"}]
    spec = write_spec(programs.folder, {**SCHEMA, "fields": fields})
    said = programs.run("up", spec, "--until-idle", "--bus", f"embedded:{programs.folder / 'bus'}", code=2).err
    assert "Traceback" not in said
    assert "data.schema: is not a schema that can be read here: " in said
