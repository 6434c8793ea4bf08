"""topics.yaml, the schemas beside it and the code say the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
import yaml

from streaminfer.bus.protocol import Topic
from streaminfer.cli import COMMANDS
from streaminfer.runtime import names
from streaminfer.services import ROLES
from streaminfer.spec import parse_spec
from streaminfer.spec.data import FORMATS as SPEC_FORMATS
from streaminfer.topics import declarations, formats, read
from streaminfer.variational.methods import METHODS
from streaminfer.wire import beats, increments, measurements, panes, snapshots
from streaminfer.wire.sampled import answers, draws, questions, sampler_states

FOLDER = Path(__file__).parents[2] / "topics"
DOCUMENT: dict[str, Any] = yaml.safe_load((FOLDER / "topics.yaml").read_text())
ROWS: list[dict[str, Any]] = DOCUMENT["topics"]
FORMATS: list[dict[str, Any]] = DOCUMENT["formats"]
REQUIRED = {"name", "about", "schema", "key", "partitions", "cleanup", "max_bytes", "writers", "readers"}
FILES = sorted(path.name for path in FOLDER.glob("*.avsc"))
OF_SAMPLERS = {"draws", "sampler-state", "questions", "answers", "combined"}
BY_NAME = pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])


@BY_NAME
def test_each_row_has_its_keys_and_no_other(row: dict[str, Any]) -> None:
    expected = REQUIRED | ({"schema_id"} if row["schema"] != "none" else set())
    expected |= {"retention_days"} if row["cleanup"] == "delete" else set()
    expected |= {"only_with", "earlier", "describers", "retention_days"} & row.keys()
    assert set(row.get("only_with", [])) <= {"windows", "variational", "samplers", "combine", *METHODS}
    assert set(row) == expected
    assert row["partitions"] in {"data", "shard", "unit", "one"}
    assert row["cleanup"] in {"delete", "compact"}
    assert row["about"]
    assert row["key"]


@BY_NAME
def test_writers_and_readers_are_services_and_commands(row: dict[str, Any]) -> None:
    known = set(ROLES) | set(COMMANDS) | {"subscribe"}
    assert row["writers"]
    assert row["readers"]
    assert {*row["writers"], *row["readers"], *row.get("describers", [])} <= known


def test_names_and_schema_ids_are_unique() -> None:
    ids = list({row["schema"]: row["schema_id"] for row in ROWS if row["schema"] != "none"}.values())
    ids += [row["schema_id"] for row in FORMATS]
    ids += list({each["schema"]: each["schema_id"] for row in ROWS for each in row.get("earlier", [])}.values())
    assert len(set(ids)) == len(ids)
    assert len({row["name"] for row in ROWS}) == len(ROWS)


def test_every_earlier_schema_is_declared() -> None:
    files = sorted(f"earlier/{path.name}" for path in (FOLDER / "earlier").glob("*"))
    assert sorted({each["schema"] for row in ROWS for each in row.get("earlier", [])}) == files


def test_topics_with_one_schema_have_one_id() -> None:
    pairs = {(row["schema"], row["schema_id"]) for row in ROWS if row["schema"] != "none"}
    assert len(pairs) == len({schema for schema, _ in pairs})


def test_every_schema_file_belongs_to_a_topic_or_a_format() -> None:
    assert sorted({row["schema"] for row in [*ROWS, *FORMATS]} - {"none"}) == FILES


def test_framed_formats_are_what_the_file_says_and_what_specs_may_have() -> None:
    assert {name: (found.schema or "none", found.schema_id) for name, found in formats().items()} == {
        row["name"]: (row["schema"], row["schema_id"]) for row in FORMATS
    }
    assert {"json", *formats()} == set(SPEC_FORMATS)


def _types(schema: Any) -> Iterator[Any]:
    """Every type inside a parsed schema, itself included."""
    yield schema
    inner: list[Any] = []
    if isinstance(schema, list):
        inner = schema
    elif isinstance(schema, dict):
        inner = [field["type"] for field in schema.get("fields", [])]
        inner += [schema[key] for key in ("items", "values") if key in schema]
        inner += [schema["type"]] if isinstance(schema.get("type"), dict | list) else []
    for each in inner:
        yield from _types(each)


def _smallest(schema: Any) -> int:
    """The fewest bytes a value of a type can have."""
    if isinstance(schema, list):
        return 1 + min(map(_smallest, schema))
    if isinstance(schema, dict) and schema["type"] == "record":
        return sum(_smallest(field["type"]) for field in schema["fields"])
    kind = schema["type"] if isinstance(schema, dict) else schema
    return {"null": 0, "double": 8}.get(kind, 1)


@pytest.mark.parametrize("file", FILES)
def test_schemas_parse_and_bound_their_values_by_their_bytes(file: str) -> None:
    """No type refers to one by name (so none is recursive) and no element of an array is without bytes."""
    schema = json.loads((FOLDER / file).read_text())
    fastavro.parse_schema(schema)
    primitive = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
    complex_types = {"record", "array", "enum", "map", "fixed"}
    for each in _types(schema):
        if isinstance(each, str):
            assert each in primitive
        elif isinstance(each, dict):
            assert each["type"] in primitive | complex_types
            if each["type"] in {"array", "map"}:
                assert _smallest(each.get("items", each.get("values"))) > 0


def test_the_declaration_is_what_the_file_says() -> None:
    assert list(declarations()) == [row["name"] for row in ROWS]
    for row, found in zip(ROWS, declarations().values(), strict=True):
        days = row.get("retention_days")
        assert found.retention_ms == (None if days is None else days * 86_400_000)
        assert found.schema == (None if row["schema"] == "none" else row["schema"])
        assert (found.schema_id, found.key, found.cleanup) == (row.get("schema_id"), row["key"], row["cleanup"])
        assert (list(found.writers), list(found.readers)) == (row["writers"], row["readers"])
        assert (None if found.only_with is None else list(found.only_with)) == row.get("only_with")


@pytest.mark.parametrize(
    "forget", [None, {"half_life_events": 9}, {"window_events": 9}, {"window_seconds": 9}], ids=str
)
def test_topics_of_a_spec_are_those_declared(forget: dict[str, float] | None) -> None:
    spec = parse_spec(
        {
            "name": "demo",
            "data": {"partitions": 7},
            "model": {"kind": "bernoulli", "field": "y"},
            "inference": {"forget": forget},
        }
    )
    windowed = forget is not None and "half" not in str(forget)
    expected = [
        Topic(
            f"demo.{row['name']}",
            {"data": 7, "shard": 1, "one": 1}[row["partitions"]],
            row["cleanup"],
            row["retention_days"] * 86_400_000 if "retention_days" in row else None,
            row["max_bytes"],
        )
        for row in ROWS
        if row["name"] not in OF_SAMPLERS | (set() if windowed else {"statistics"})
    ]
    assert names.topics_of(spec) == expected
    assert names.topic(spec, "dead-letters") == "demo.dead-letters"


@pytest.mark.parametrize("forget", [None, {"window_events": 9}], ids=str)
def test_topics_of_samplers_have_a_partition_for_each_unit(forget: dict[str, float] | None) -> None:
    document = {"name": "demo", "data": {"partitions": 7}, "model": {"kind": "bernoulli", "field": "y"}}
    inference = {"method": "sgld", "chains": 3, "subposteriors": 2, "forget": forget}
    variational, spec = parse_spec(document), parse_spec({**document, "inference": inference})
    counts = {"events": 7, "posterior": 1, "draws": 6, "sampler-state": 6, "dead-letters": 1, "metrics": 1, "health": 1}
    alone = parse_spec({**document, "inference": {**inference, "subposteriors": 1}})
    assert {topic.name.partition(".")[2] for topic in names.topics_of(alone)} == counts.keys()
    counts |= {"questions": 1, "answers": 6, "combined": 1}
    assert {topic.name: topic.partitions for topic in names.topics_of(spec)} == {
        f"demo.{name}": count for name, count in counts.items()
    }
    assert names.state_topics(spec) == ["demo.posterior"]
    topics = [names.master_topic(each) for each in (variational, alone, spec)]
    assert topics == ["demo.increments", "demo.posterior", "demo.combined"]
    assert (names.master_group(alone), names.master_writer(alone, 0)) == ("demo.master", "demo.master.0")
    assert (names.master_group(spec), names.master_writer(spec, 0)) == ("demo.combiner", "demo.combiner")
    assert (names.sampler_group(spec), names.sampler_writer(spec, 5)) == ("demo.sampler", "demo.sampler.5")
    assert names.combiner_writer(spec) == "demo.combiner"


@pytest.mark.parametrize("method", METHODS)
def test_statistics_are_kept_by_memoized_alone(method: str) -> None:
    model = {"kind": "gaussian_mixture", "fields": ["u"], "components": 2}
    spec = parse_spec({"name": "demo", "model": model, "inference": {"method": method}})
    assert ("statistics" in names.declared(spec)) is (method == "memoized")
    assert names.worker_service(spec) in ROLES


def test_a_dead_letter_has_room_for_the_largest_event_and_its_headers() -> None:
    sizes = {row["name"]: row["max_bytes"] for row in ROWS}
    assert sizes["dead-letters"] >= sizes["events"] + 8192
    assert sizes["dead-letters"] >= sizes["increments"] + 8192


def test_the_code_writes_topics_that_are_declared() -> None:
    assert declarations()[increments.TOPIC].schema == "increment.avsc"
    assert declarations()[snapshots.TOPIC].schema == "snapshot.avsc"
    assert declarations()[panes.TOPIC].schema == "statistics.avsc"
    assert declarations()[draws.TOPIC].schema == "draws.avsc"
    assert declarations()[sampler_states.TOPIC].schema == "sampler-state.avsc"
    assert declarations()[questions.TOPIC].schema == "question.avsc"
    assert declarations()[answers.TOPIC].schema == "answer.avsc"
    assert declarations()[measurements.TOPIC].schema == "measurement.avsc"
    assert declarations()[beats.TOPIC].schema == "beat.avsc"
    assert read("increment.avsc") == (FOLDER / "increment.avsc").read_text()
