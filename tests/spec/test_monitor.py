"""The section `monitor`: defaults, what it becomes, and errors that say the field, the rule and the nearest name."""

from __future__ import annotations

from typing import Any

import pytest

from streaminfer.measuring.judging.settings import Audit, Bdmc, Coverage, Settings
from streaminfer.spec import SpecError, parse_spec

REGRESSION = {"kind": "linear_regression", "features": ["sqm", "rooms"], "target": "price"}
MIXTURE = {"kind": "gaussian_mixture", "fields": ["u", "v"], "components": 40}
TOPICS = {"kind": "lda", "field": "words", "topics": 2}
NO_TARGET = {"kind": "queue_models.visits:Visits", "field": "customers"}


def spec(model: dict[str, Any] | None = None, key: str | None = None, **monitor: Any) -> Any:
    document = {"name": "demo", "model": model or REGRESSION, "monitor": monitor}
    if model is NO_TARGET:
        document["inference"] = {"method": "svi"}
    return parse_spec(document if key is None else {**document, "key": key})


def test_without_the_section_it_has_the_defaults() -> None:
    found = parse_spec({"name": "demo", "model": REGRESSION})
    assert found.monitor == Settings()
    assert found.document["monitor"] == {
        "share": 0.1, "events": 20000, "draws": 1000, "estimands": [], "coverage": {"watch": 0.92, "fail": 0.85},
        "fresh_seconds": 60.0, "bad_share": 0.01,
        "bdmc": {"every_seconds": 86400.0, "datasets": 10, "temperatures": 1000, "events": 500},
        "audit": {"every_seconds": 86400.0},
    }  # fmt: skip


def test_every_option_arrives() -> None:
    given = {
        "share": 0.5, "events": 9, "draws": 10, "estimands": ["weights[sqm]", "noise_variance"],
        "coverage": {"watch": 0.9, "fail": 0.5}, "fresh_seconds": 1, "bad_share": 0,
        "bdmc": {"every_seconds": 1, "datasets": 2, "temperatures": 3, "events": 4}, "audit": {"every_seconds": 5},
    }  # fmt: skip
    found = spec(**given).monitor
    assert found == Settings(
        0.5, 9, 10, ("weights[sqm]", "noise_variance"), Coverage(0.9, 0.5), 1.0, 0.0, Bdmc(1.0, 2, 3, 4), Audit(5.0)
    )


@pytest.mark.parametrize("model", [REGRESSION, MIXTURE, TOPICS, NO_TARGET], ids=lambda model: model["kind"])
@pytest.mark.parametrize("key", [None, "city"])
def test_a_spec_with_all_defaults_filled_in_means_the_same(model: dict[str, Any], key: str | None) -> None:
    if key is not None and model is not REGRESSION:
        key = None
    found = spec(model, key)
    again = parse_spec(found.document)
    assert (again.monitor, again.fingerprint) == (found.monitor, found.fingerprint)


WRONG: list[tuple[Any, str]] = [
    (lambda: spec(shar=1), "monitor.shar: is not a known key; did you mean 'share'? known: share, events, draws, "
     "estimands, coverage, fresh_seconds, bad_share, bdmc, audit (got 1)"),
    (lambda: spec(share=0), "monitor.share: must be a number above 0 and at most 1 (got 0)"),
    (lambda: spec(coverage={"watch": 2}), "monitor.coverage.watch: must be a number above 0 and at most 1 (got 2)"),
    (lambda: spec(coverage={"fail": 0.95}), "monitor.coverage.fail: must not be above coverage.watch, which is 0.92 "
     "(got 0.95)"),
    (lambda: spec(estimands=["weights[sqn]"]), "monitor.estimands[0]: is not a known number of the posterior; did you "
     "mean 'weights[sqm]'? known: weights[intercept], weights[sqm], weights[rooms], noise_variance (got "
     "'weights[sqn]')"),
    (lambda: spec(estimands=["noise_variance", "slope"]), "monitor.estimands[1]: is not a known number of the "
     "posterior; known: weights[intercept], weights[sqm], weights[rooms], noise_variance (got 'slope')"),
    (lambda: spec(key="city", estimands=["noise_variance"]), "monitor.estimands: means nothing with the key city, as "
     "every key has a posterior of its own: leave it out (got ['noise_variance'])"),
    (lambda: spec(key="city", bdmc={"events": 9}), "monitor.bdmc: means nothing with the key city, as every key has a "
     "posterior of its own: leave it out (got {'every_seconds': 86400.0, 'datasets': 10, 'temperatures': 1000, "
     "'events': 9})"),
    (lambda: spec(TOPICS, estimands=["topics"]), "monitor.estimands: means nothing with the model lda, whose words are "
     "not known before: leave it out (got ['topics'])"),
    (lambda: spec(NO_TARGET, estimands=["rate"]), "monitor.estimands: means nothing with the model "
     "queue_models.visits:Visits, which has no densities to measure by: leave it out (got ['rate'])"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text"), WRONG, ids=[text[:40] for _, text in WRONG])
def test_errors_say_field_rule_value_and_the_nearest_name(make: Any, text: str) -> None:
    with pytest.raises(SpecError) as caught:
        make()
    assert str(caught.value) == f"spec: {text}"


def test_a_large_model_lists_a_few_of_its_numbers() -> None:
    with pytest.raises(SpecError) as caught:
        spec(MIXTURE, estimands=["means[7, w]"])
    text = str(caught.value)
    assert "did you mean 'means[" in text
    assert text.count("weights[") == 20
    assert ", … (got" in text
