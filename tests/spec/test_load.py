"""Good specs: defaults, files, and the document that a spec prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from streaminfer.spec import Data, Drift, Inference, Reaction, load_spec, parse_spec
from tests.spec.documents import FULL, PRIORS, SMALLEST, document


def test_defaults_of_data_and_inference() -> None:
    spec = parse_spec(document())
    assert spec.name == "demo"
    assert spec.data == Data(format="json", partitions=4)
    assert spec.inference == Inference(
        method="svb", minibatch=256, linger_ms=50, max_staleness=8, snapshot_ms=50, snapshot_events=100_000
    )


NO_SCHEMA = {"schema": None, "schema_id": None}


@pytest.mark.parametrize("kind", SMALLEST)
def test_defaults_of_every_model(kind: str) -> None:
    filled = parse_spec(document(kind)).document
    expected = {**SMALLEST[kind], "prior": PRIORS[kind]}
    if kind == "poisson":
        expected["exposure"] = None
    if kind == "linear_regression":
        expected["intercept"] = True
    assert filled["model"] == expected
    data = {"format": "json", "partitions": 4, "topic": None, "fields": {}, "timestamp": None, **NO_SCHEMA}
    assert filled["data"] == data
    assert list(filled) == ["name", "data", "model", "inference", "drift", "monitor"]


@pytest.mark.parametrize("kind", SMALLEST)
@pytest.mark.parametrize("models", [SMALLEST, FULL], ids=["smallest", "full"])
def test_the_document_loads_to_the_same_spec(kind: str, models: dict[str, object], tmp_path: Path) -> None:
    spec = parse_spec(document(kind, model=models[kind], data={"partitions": 7}, inference={"minibatch": 3}))
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(spec.document))
    again = load_spec(path)
    assert again == spec
    assert again.document == spec.document
    assert again.fingerprint == spec.fingerprint


@pytest.mark.parametrize("kind", SMALLEST)
def test_json_is_yaml(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(document(kind, model=FULL[kind]), indent=1))
    assert load_spec(path) == parse_spec(document(kind, model=FULL[kind]))


def test_what_a_spec_says_is_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(
        "name: prices\n"
        "data: {format: json, partitions: 1024}\n"
        "model: {kind: poisson, field: k, exposure: hours, prior: {shape: 2, rate: 0.5}}\n"
        "inference: {method: svb, minibatch: 1, linger_ms: 0, max_staleness: 0, snapshot_ms: 1, snapshot_events: 1}\n"
    )
    spec = load_spec(str(path))
    assert spec.data == Data("json", 1024)
    assert spec.inference == Inference("svb", 1, 0, 0, 1, 1)
    assert [field.name for field in spec.model.fields] == ["k", "hours"]
    assert spec.model.posterior(spec.model.empty()).natural.tolist() == [2.0, 0.5]


def test_drift_is_watched_only_where_the_spec_says_so(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"

    def load(drift: str) -> Drift | None:
        path.write_text(f"name: demo\nmodel: {{kind: poisson, field: k}}\ndrift: {drift}\n")
        again = parse_spec(load_spec(path).document)
        assert again == load_spec(path)
        return again.drift

    assert load("null") is None
    assert load("{}") == Drift(1e7, 256) == load("{react: report}")
    assert load("{events_per_false_alarm: 1e6, block_events: 64}") == Drift(1e6, 64)
    assert load("{react: {half_life_events: 500, for_events: 4000}}") == Drift(1e7, 256, Reaction(500.0, 4000))


@pytest.mark.parametrize("text", ["1e3", "1E3", "1e+3", "+1e3", "1.e3", "1.0e3", "10000e-1"])
def test_numbers_with_an_exponent_are_numbers(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"name: demo\nmodel: {{kind: poisson, field: k, prior: {{shape: {text}}}}}\n")
    assert load_spec(path).document["model"]["prior"]["shape"] == 1000.0
    path.write_text(f"name: demo\nmodel: {{kind: poisson, field: '{text}'}}\n")
    assert load_spec(path).document["model"]["field"] == text


@pytest.mark.parametrize("section", ["data", "inference"])
def test_an_empty_section_is_that_of_its_defaults(section: str) -> None:
    assert parse_spec(document(**{section: None})) == parse_spec(document())
    assert parse_spec(document(**{section: {}})) == parse_spec(document())


@pytest.mark.parametrize("name", ["a", "a-0", "z" + "9" * 39])
def test_names_up_to_forty_characters(name: str) -> None:
    assert parse_spec(document(name=name)).name == name
