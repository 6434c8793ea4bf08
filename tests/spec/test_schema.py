"""The JSON Schema: valid by itself, and of one mind with parse_spec."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from streaminfer.models.options import OptionsError
from streaminfer.spec import SpecError, json_schema, parse_spec
from tests.spec.documents import FULL, SMALLEST, document

VALIDATOR = Draft202012Validator(json_schema())

WRONG: list[Any] = [0, -1, 1e60, "x", "", True, [], [0], {}, ["a", "a"]]
"""Values that are wrong for most options and right for some: both sides must say the same of each."""


def _options(kind: str) -> list[dict[str, Any]]:
    """Documents in which one option at a time is another value, or missing, or misspelt."""
    full = FULL[kind]
    found = [SMALLEST[kind], full, {**SMALLEST[kind], "prior": {}}, {**SMALLEST[kind], "prior": None}]
    for key in full:
        found += [{**full, key: value} for value in [*WRONG, None]]
        found += [{k: v for k, v in full.items() if k != key}, {**full, key + "s": 1}]
    for key in full["prior"]:
        found += [{**full, "prior": {**full["prior"], key: value}} for value in [*WRONG, None]]
        found.append({**full, "prior": {**full["prior"], key + "_": 1}})
    return found


SECTIONS: list[dict[str, Any]] = [
    *({"data": value} for value in [None, {}, *WRONG]),
    *({"data": {"format": value}} for value in [None, "json", "jsn", *WRONG]),
    *({"data": {"partitions": value}} for value in [None, 1, 1024, 1025, 1.5, *WRONG]),
    *({"data": {"topic": value}}
      for value in [None, "orders", "a.b_c-D", ".", "..", "...", ".a", "a/b", "x" * 249, "x" * 250, *WRONG]),
    *({"data": {"topic": "orders", "partitions": value}} for value in [None, 2, 0]),
    *({"data": {"fields": value}} for value in [None, {}, *WRONG]),
    *({"data": {"fields": {"k": value}}}
      for value in ["a", "a.b", "a b.c", ".a", "a.", "a..b", ".".join("a" * 16), ".".join("a" * 17), "x" * 200,
                    "x" * 201, None, *WRONG]),
    {"data": {"tpoic": "orders"}},
    *({"inference": value} for value in [None, {}, *WRONG]),
    *({"inference": {"method": value}} for value in [None, "svb", *WRONG]),
    *({"inference": {"epochs": value}} for value in [None, 0, 10_001, *WRONG]),
    *({"inference": {key: value}}
      for key in ("minibatch", "linger_ms", "max_staleness", "snapshot_ms", "snapshot_events", "linger")
      for value in [None, 0, 1, 10**13, *WRONG]),
    *({"inference": {"forget": value}} for value in [None, {}, *WRONG]),
    *({"inference": {"forget": {key: value}}}
      for key in ("half_life_events", "half_life_seconds", "window_seconds", "half_life")
      for value in [None, 0.001, 0.01, 100, 1e12, 1e15, 2e15, *WRONG]),
    *({"inference": {"forget": {"window_events": value}}} for value in [None, 0, 1, 10**15, 10**15 + 1, 0.5, *WRONG]),
    {"inference": {"forget": {"half_life_events": 5, "half_life_seconds": 5}}},
    {"inference": {"forget": {"half_life_events": 5, "half_life_seconds": None}}},
    {"inference": {"forget": {"half_life_events": 5, "window_events": 5}}},
    *({"drift": value} for value in [None, {}, *WRONG]),
    *({"drift": {key: value}}
      for key in ("events_per_false_alarm", "block_events", "react", "reakt")
      for value in [None, 0.5, 1, 256, 1e7, 2e15, "report", "forget", {}, *WRONG]),
    *({"drift": {"react": {"half_life_events": 5, "for_events": value}}} for value in [None, 0, 1, 2.5, *WRONG]),
    *({"drift": {"react": {"half_life_events": value, "for_events": 5}}} for value in [None, 0, 0.5, *WRONG]),
    {"drift": {"react": {"half_life_events": 5, "for_events": 5, "until": 5}}},
    *({"monitor": value} for value in [None, {}, *WRONG]),
    *({"monitor": {key: value}}
      for key in ("share", "events", "draws", "fresh_seconds", "bad_share", "coverage", "bdmc", "audit", "shrae")
      for value in [None, 0.5, 10, 1e9, 2e9, *WRONG]),
    *({"monitor": {"estimands": value}} for value in [None, ["y"], ["p", "p"], [1], *WRONG]),
    *({"monitor": {part: {key: value}}}
      for part, key in (("coverage", "watch"), ("coverage", "fail"), ("bdmc", "datasets"), ("bdmc", "temperatures"),
                        ("bdmc", "events"), ("audit", "every_seconds"), ("audit", "every"))
      for value in [None, 0.5, 2, 1e9, *WRONG]),
    *({"data": {"timestamp": value}} for value in [None, "at", "a.b", "a..b", *WRONG]),
    *({"name": value} for value in [None, "a", "a-b-9", "A", "9a", "a_b", "x" * 40, "x" * 41, *WRONG]),
    *({"model": value} for value in [None, {"kind": "lda"}, {"kind": None}, {"kind": ["poisson"]}, *WRONG]),
    {"extra": 1},
]  # fmt: skip

SAMPLERS = ["mh", "mala", "gibbs", "sgld", "sghmc", "sgnht", "subsampled_mh"]
SAMPLED: list[dict[str, Any]] = [
    *({"inference": {"method": method, key: value}}
      for method in SAMPLERS
      for key in ("seed", "chains", "draws", "thin", "warmup", "segment", "subposteriors", "start", "sede")
      for value in [None, 1, 64, 65, "mode", {"growth": 2}, {"events": 9}, {"seconds": 0}, *WRONG]),
    *({"inference": {"method": "sghmc", key: value}}
      for key in ("minibatch", "batches", "source", "population", "precondition", "control_variates", "friction",
                  "noise")
      for value in [None, 1, 0.5, "shuffled", "stream", "rms", "mode", *WRONG]),
    *({"inference": {"method": "sgld", "step": {key: value}}}
      for key in ("bias", "size", "after", "power", "floor", "accept", "bais")
      for value in [None, 0.5, 2, *WRONG]),
    *({"inference": {"method": "mh", key: value}}
      for key in ("adapt", "step") for value in [None, "always", {"accept": 0.3}, {"accept": 1}, {"size": 1}, *WRONG]),
    *({"inference": {"method": "subsampled_mh", "test": {key: value}}}
      for key in ("rule", "error", "growth", "order") for value in [None, "t", "hoeffding", 0.1, 1, 2, 0, *WRONG]),
    *({"inference": {"method": "sgld", "correct": {key: value}}}
      for key in ("rule", "error", "growth", "order") for value in [None, "t", 0.1, 1, 3, *WRONG]),
    *({"inference": {"method": "gibbs", "scan": value}} for value in [None, "systematic", "random", *WRONG]),
]  # fmt: skip


def _parses(given: Any) -> bool:
    try:
        parse_spec(given)
    except SpecError as error:
        # How options fit together (the length of a list, a field named twice) is beyond a schema.
        return isinstance(error.__cause__, OptionsError)
    return True


def _disagreements(documents: list[Any]) -> list[Any]:
    return [given for given in documents if VALIDATOR.is_valid(given) != _parses(given)]


def test_the_schema_is_a_valid_one() -> None:
    Draft202012Validator.check_schema(json_schema())
    assert json_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("kind", SMALLEST)
def test_schema_and_parser_agree_on_models(kind: str) -> None:
    documents = [document(model=model) for model in _options(kind)]
    accepted = sum(map(_parses, documents))
    assert 4 <= accepted < len(documents) - 10
    assert _disagreements(documents) == []


def test_schema_and_parser_agree_on_sections() -> None:
    documents = [document(**sections) for sections in SECTIONS]
    assert 20 <= sum(map(_parses, documents)) < len(documents) - 20
    assert _disagreements(documents) == []


def test_schema_and_parser_agree_on_samplers() -> None:
    documents = [document(**sections) for sections in SAMPLED]
    assert 100 <= sum(map(_parses, documents)) < len(documents) - 100
    assert _disagreements(documents) == []


def test_the_filled_document_of_a_sampler_follows_the_schema() -> None:
    for method in SAMPLERS:
        VALIDATOR.validate(parse_spec(document(inference={"method": method})).document)
    VALIDATOR.validate(parse_spec(document("categorical", inference={"method": "sgrld"})).document)


@pytest.mark.parametrize("given", [None, [], "x", 3, {}, {"name": "a"}, {"model": SMALLEST["poisson"]}])
def test_schema_and_parser_refuse_what_is_no_spec(given: Any) -> None:
    assert not VALIDATOR.is_valid(given)
    assert not _parses(given)


@pytest.mark.parametrize("kind", SMALLEST)
def test_the_filled_document_follows_the_schema(kind: str) -> None:
    VALIDATOR.validate(parse_spec(document(kind)).document)


def test_every_key_has_a_description_and_every_default_is_there() -> None:
    schema = json_schema()
    inference = schema["properties"]["inference"]["anyOf"][0]["properties"]
    assert inference["max_staleness"]["default"] == 8
    assert "Not set means 256, with a diagonal covariance 1024." in inference["minibatch"]["description"]
    for model in schema["properties"]["model"]["oneOf"]:
        for entry in model["properties"].values():
            assert entry["description"]
