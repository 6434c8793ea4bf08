"""The fingerprint: changes with what an increment means, and with nothing else."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import pytest

from streaminfer.models.conjugate.bernoulli import Bernoulli
from streaminfer.spec import Data, Inference, Spec, meaning, parse_spec
from tests.spec.documents import FULL, SMALLEST, document

SAME = [
    {"name": "other"},
    {"data": {"partitions": 9}},
    {"data": {"fields": {}}},
    {"data": {"fields": {"k": "k"}}},
    {"inference": {"minibatch": 1}},
    {"inference": {"linger_ms": 0}},
    {"inference": {"max_staleness": 0}},
    {"inference": {"snapshot_ms": 1}},
    {"inference": {"snapshot_events": 1}},
    {"inference": {"forget": None}},
    {"data": {"timestamp": "at"}},
    {"data": {"timestamp": None}},
    {"monitor": {"share": 0.5, "estimands": ["rate"], "coverage": {"watch": 0.9}, "bdmc": {"datasets": 2}}},
    {"drift": None},
    {"drift": {}},
    {"drift": {"events_per_false_alarm": 5, "block_events": 7, "react": "report"}},
]


CHANGES: dict[str, list[dict[str, Any]]] = {
    "bernoulli": [{"field": "z"}, {"prior": {"alpha": 2}}, {"prior": {"beta": 2}}],
    "categorical": [{"field": "z"}, {"categories": ["a", "c", "b"]}, {"prior": {"concentration": 2}}],
    "poisson": [{"field": "z"}, {"exposure": "t"}, {"prior": {"shape": 2}}, {"prior": {"rate": 2}}],
    "gaussian": [
        {"fields": ["v", "u"]},
        *({"prior": {key: value}} for key, value in {"mean": 1, "kappa": 1, "dof": 9, "scale": 2}.items()),
    ],
    "linear_regression": [
        {"features": ["b", "a"]},
        {"target": "z"},
        {"intercept": False},
        *({"prior": {key: 2}} for key in ("mean", "precision", "intercept_precision", "shape", "rate")),
    ],
}


def _fingerprint(**sections: Any) -> str:
    return parse_spec(document(**sections)).fingerprint


def test_it_is_the_start_of_a_digest_over_all_that_is_meant() -> None:
    """Written out, because another value would orphan every posterior that exists."""
    meant = (
        '{"format":"json","method":"svb",'
        '"model":{"exposure":null,"field":"k","kind":"poisson","prior":{"rate":1.0,"shape":1.0}}}'
    )
    assert _fingerprint() == hashlib.sha256(meant.encode()).hexdigest()[:16]


@pytest.mark.parametrize("sections", SAME, ids=str)
def test_what_does_not_change_it(sections: dict[str, Any]) -> None:
    assert _fingerprint(**sections) == _fingerprint()


def test_every_option_of_every_model_changes_it() -> None:
    models = [*SMALLEST.values(), *FULL.values()]
    for kind, smallest in SMALLEST.items():
        models += [{**smallest, **change} for change in CHANGES[kind]]
    found = [_fingerprint(model=model) for model in models]
    assert len(set(found)) == len(models)


def test_format_and_method_change_it() -> None:
    """There is one of each so far, so the Spec is made by hand."""
    spec = parse_spec(document("bernoulli"))
    model = Bernoulli("y")

    def made(data_format: str, method: str) -> str:
        inference = Inference(method, 256, 100, 8, 100, 100_000)
        return Spec("demo", Data(data_format, 4), model, inference, spec.document).fingerprint

    assert made("json", "svb") == spec.fingerprint
    assert len({spec.fingerprint, made("avro", "svb"), made("json", "svi")}) == 3


def test_passes_change_it_and_what_a_batch_is_where_batches_are_kept() -> None:
    def made(method: str, **inference: Any) -> str:
        model = {"kind": "gaussian_mixture", "fields": ["u"], "components": 2}
        return _fingerprint(model=model, inference={"method": method, **inference})

    for method in ("svi", "memoized"):
        assert made(method) == made(method, epochs=1)
        assert len({made(method), made(method, epochs=2), made(method, epochs=3)}) == 3
    assert made("svi", minibatch=5) == made("svi")
    assert made("memoized", minibatch=5) != made("memoized")


def test_somebody_elses_topic_and_the_places_of_fields_change_it() -> None:
    """Positions of another topic mean nothing to a frontier, and other places are other events."""
    given = [
        {},
        {"topic": "orders"},
        {"topic": "orders2"},
        {"fields": {"k": "n"}},
        {"fields": {"k": "n.k"}},
        {"fields": {"k": "k.n"}},
        {"topic": "orders", "fields": {"k": "n"}},
    ]
    assert len({_fingerprint(data=data) for data in given}) == len(given)


def test_forgetting_changes_it_and_the_time_only_where_it_is_read() -> None:
    by_time, by_events = {"forget": {"half_life_seconds": 60}}, {"forget": {"half_life_events": 60}}
    given: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {}),
        (by_events, {}),
        ({"forget": {"half_life_events": 61}}, {}),
        ({"forget": {"window_events": 60}}, {}),
        ({"forget": {"window_events": 61}}, {}),
        ({"forget": {"window_seconds": 60}}, {}),
        ({"forget": {"window_seconds": 60}}, {"timestamp": "at"}),
        (by_time, {}),
        (by_time, {"timestamp": "at"}),
        (by_time, {"timestamp": "a.t"}),
        (by_time, {"timestamp": "at", "fields": {"k": "at"}}),
    ]
    assert len({_fingerprint(inference=inference, data=data) for inference, data in given}) == len(given)
    assert _fingerprint(inference=by_events, data={"timestamp": "at"}) == _fingerprint(inference=by_events)
    assert _fingerprint(inference={"forget": {"half_life_events": 60.0}}) == _fingerprint(inference=by_events)


def test_a_reaction_to_drift_changes_it_with_all_that_decides_on_alarms() -> None:
    react = {"half_life_events": 5, "for_events": 9}
    given: list[dict[str, Any]] = [
        {},
        {"react": react},
        {"react": {**react, "half_life_events": 6}},
        {"react": {**react, "for_events": 10}},
        {"react": react, "block_events": 255},
        {"react": react, "events_per_false_alarm": 1e6},
    ]
    assert len({_fingerprint(drift=drift) for drift in given}) == len(given)
    assert _fingerprint(drift={"react": react, "block_events": 256}) == _fingerprint(drift={"react": react})


def test_a_path_is_not_the_name_with_dots_in_it() -> None:
    model = {"kind": "poisson", "field": "a.b"}
    assert _fingerprint(model=model) != _fingerprint(model=model, data={"fields": {"a.b": "a.b"}})


@pytest.mark.parametrize("kind", SMALLEST)
def test_defaults_written_out_change_nothing(kind: str) -> None:
    spec = parse_spec(document(kind))
    assert parse_spec(spec.document).fingerprint == spec.fingerprint


def test_the_way_a_number_is_written_changes_nothing() -> None:
    priors = [{"shape": 2, "rate": 1}, {"shape": 2.0}, {"rate": 1.0, "shape": 2}]
    found = [_fingerprint(model={"kind": "poisson", "field": "k", "prior": prior}) for prior in priors]
    assert all(a == b for a, b in pairwise(found))


@pytest.mark.parametrize(
    ("model", "before", "say"),
    [
        ({"kind": "logistic_regression"}, "347203ba2ed36300", {"local": "bound"}),
        ({"kind": "logistic_regression", "covariance": "diagonal"}, "c0b160262691cfb1", {"local": "bound"}),
        ({"kind": "probit_regression"}, "2e6a06d0e5d3e7f4", {"local": "sequential", "sweeps": 1}),
    ],
)
def test_posteriors_from_before_local_are_continued_by_what_the_error_says(
    model: dict[str, Any], before: str, say: dict[str, Any]
) -> None:
    """The fingerprints are those that versions without `model.local` gave the same models."""
    whole = {**model, "features": ["a"], "target": "y"}
    assert parse_spec({"name": "x", "model": {**whole, **say}}).fingerprint == before
    now = parse_spec({"name": "x", "model": whole})
    assert now.fingerprint != before
    told = meaning.remedy(now.meaning, before)
    assert told is not None
    assert told.endswith(f"set {' and '.join(f'model.{name}: {value}' for name, value in say.items())} to continue it")


def test_topics_from_before_local_are_continued_with_the_bound() -> None:
    said = {"kind": "lda", "field": "w"}
    assert parse_spec({"name": "x", "model": {**said, "local": "bound"}}).fingerprint == "39ced6c935c25eed"
    told = meaning.remedy(parse_spec({"name": "x", "model": said}).meaning, "39ced6c935c25eed")
    assert told == "it was begun when model.local was 'bound': set model.local: bound to continue it"
