"""`topics` and `validate`: what a spec declares, with all defaults, and what the bus has of it."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from tests.cli.conftest import SPEC, Workplace

pytestmark = pytest.mark.xdist_group("processes")

TOPICS = ["coin.events", "coin.increments", "coin.posterior", "coin.dead-letters", "coin.metrics", "coin.health"]


def test_topics_are_shown_and_made(workplace: Workplace, bus_url: str) -> None:
    run = workplace.call
    open_bus(bus_url).close()
    missing = run("topics", workplace.spec, "--bus", bus_url).out.splitlines()
    assert missing[0].split() == ["topic", "partitions", "cleanup", "retention", "records", "status"]
    assert [line.split()[0] for line in missing[1:]] == TOPICS
    assert all(line.endswith("missing") for line in missing[1:])

    made = run("topics", workplace.spec, "--apply", "--json", "--bus", bus_url).documents
    assert [row["topic"] for row in made] == TOPICS
    assert {row["status"] for row in made} == {"there"}
    assert {row["records"] for row in made} == {0}
    assert made[0]["partitions"] == 2
    assert [row["cleanup"] for row in made] == ["delete", "delete", "compact", "compact", "delete", "delete"]
    assert run("topics", workplace.spec, "--json", "--bus", bus_url).documents == made

    wider = workplace.folder / "wider.yaml"
    wider.write_text(SPEC.replace("partitions: 2", "partitions: 3"))
    assert run("topics", wider, "--json", "--bus", bus_url).documents[0]["status"].startswith("differs")
    assert run("topics", wider, "--apply", "--json", "--bus", bus_url).documents[0]["partitions"] == 3


def test_validate_prints_a_spec_that_means_the_same(workplace: Workplace) -> None:
    text = workplace.call("validate", workplace.spec).out
    filled = workplace.folder / "filled.yaml"
    filled.write_text(text)
    original, again = load_spec(workplace.spec), load_spec(filled)
    assert again.fingerprint == original.fingerprint
    assert again.document == original.document == yaml.safe_load(text)
    assert text.startswith(f"# fingerprint {original.fingerprint}\n")
    (document,) = workplace.call("validate", workplace.spec, "--json").documents
    assert document == {"fingerprint": original.fingerprint, "spec": original.document}


def test_validate_prints_a_schema_that_specs_follow(workplace: Workplace) -> None:
    schema = json.loads(workplace.call("validate", "--schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(yaml.safe_load(SPEC))
    assert validator.is_valid(load_spec(workplace.spec).document)
    assert not validator.is_valid(yaml.safe_load(SPEC.replace("field: y", "feild: y")))
