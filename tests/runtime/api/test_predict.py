"""snapshot.predict: rows without the target, one or several, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from streaminfer import PosteriorSnapshot, RowError, fit, parse_spec
from streaminfer.models.lda.documents import Documents
from streaminfer.runtime.api.prediction import CannotPredict
from streaminfer.runtime.following.keys import KeyedSnapshots
from streaminfer.variational.lda.local import local
from streaminfer.variational.lda.topics import Topics
from tests.runtime.keyed_rig import KeyedRig, keyed_spec
from tests.runtime.keyed_streams import BEGIN, run

LINE = {"kind": "linear_regression", "features": ["a", "b"], "target": "y"}


def line(data: dict[str, Any] | None = None) -> PosteriorSnapshot:
    rng = np.random.default_rng(1)
    rows = [{"a": a, "b": b, "y": 1 + a - b} for a, b in rng.normal(size=(40, 2)).tolist()]
    return fit(parse_spec({"name": "demo", "data": data or {}, "model": LINE}), rows)


def test_one_row_has_numbers_and_several_have_arrays() -> None:
    found = line()
    one = found.predict({"a": 1, "b": np.float64(2)})
    assert {name: type(value) for name, value in one.items()} == dict.fromkeys(["mean", "sd", "lower", "upper"], float)
    several = found.predict([{"a": 1, "b": 2}, {"a": 0, "b": 0, "y": "not looked at", "c": None}])
    framed = found.predict(pd.DataFrame({"a": [1, 0], "b": [2, 0]}))
    for name, value in one.items():
        assert several[name].shape == (2,)
        assert several[name][0] == value
        np.testing.assert_array_equal(framed[name], several[name])
    assert found.predict([])["mean"].shape == (0,)
    assert one["mean"] == pytest.approx(found.mean["weights"] @ [1, 1, 2])


def test_the_interval_is_as_wide_as_asked() -> None:
    found = line()
    half, most = (found.predict({"a": 1, "b": 2}, interval=level) for level in (0.5, 0.99))
    assert most["lower"] < half["lower"] < half["upper"] < most["upper"]
    for level in (0, 1, 95, float("nan")):
        with pytest.raises(CannotPredict, match="interval: must be a number between 0 and 1"):
            found.predict({"a": 1, "b": 2}, interval=level)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"a": 1}, "row 1: b: is missing"),
        ({"a": "x", "b": 2}, "row 1: a: expected a number, got 'x'"),
        ({"a": float("nan"), "b": 2}, "row 1: a: must be a number of size at most 1e+100 (got nan)"),
        ([1, 2], "row 1: an event must be an object with named fields (got a list of 2 values)"),
    ],
)
def test_a_bad_row_is_told_by_its_number(row: Any, text: str) -> None:
    with pytest.raises(RowError) as caught:
        line().predict([{"a": 1, "b": 2}, row])
    assert str(caught.value) == text


def test_inputs_are_where_events_have_them() -> None:
    data = {"fields": {"b": "deep.b", "y": "deep.y"}}
    rows = [{"a": float(i % 3), "deep": {"b": float(i % 5), "y": float(i)}} for i in range(20)]
    found = fit(parse_spec({"name": "demo", "data": data, "model": LINE}), rows)
    assert found.predict({"a": 1, "deep": {"b": 2}})["mean"] == pytest.approx(found.mean["weights"] @ [1, 1, 2])
    with pytest.raises(RowError, match=r"b \(from deep.b\): is missing"):
        found.predict({"a": 1, "deep": {}})


def test_a_row_may_need_no_field_at_all() -> None:
    found = fit(parse_spec({"name": "demo", "model": {"kind": "bernoulli", "field": "y"}}), [{"y": 1}] * 8)
    assert found.predict({})["probability"] == pytest.approx(0.9)
    assert found.predict([{}, {"y": 7}])["probability"].tolist() == pytest.approx([0.9, 0.9])
    with pytest.raises(RowError, match="must be an object"):
        found.predict([3])


def test_a_count_needs_its_exposure_only() -> None:
    model = {"kind": "poisson", "field": "k", "exposure": "hours"}
    found = fit(parse_spec({"name": "demo", "model": model}), [{"k": 3, "hours": 1.0}] * 9)
    assert found.predict([{"hours": 2.0}, {"hours": 10}])["mean"].tolist() == pytest.approx([5.6, 28.0])
    with pytest.raises(RowError, match="hours: must be a number above 0"):
        found.predict({"hours": 0})


WORDS = [{"w": ["cat", "dog", "dog"]}, {"w": ["tax", "law"]}] * 30


@pytest.mark.parametrize("by", ["mean", "bound"])
def test_topics_of_a_document_are_those_of_the_local_step(by: str) -> None:
    """gamma / sum gamma, by the words that the posterior has; without any the topics are equal."""
    found = fit(parse_spec({"name": "demo", "model": {"kind": "lda", "field": "w", "topics": 3, "local": by}}), WORDS)
    one = found.predict({"w": {"dog": 2, "law": 1, "unheard": 50}})
    natural = found.posterior.natural
    topics = Topics(natural.T.copy(), natural.sum(axis=1), by == "mean")
    at = {word: i for i, word in enumerate(found.vocabulary)}
    gamma = local(topics, Documents.of([{at["dog"]: 2.0, at["law"]: 1.0}]), 0.1).gamma[0]
    np.testing.assert_allclose(one["topics"], gamma / gamma.sum(), rtol=1e-9)
    assert one["words"] == 3
    several = found.predict([{"w": ["cat"] * 9}, {"w": []}, {"w": ["unheard"]}, {"w": ["tax"] * 9}])
    assert several["topics"].shape == (4, 3)
    np.testing.assert_allclose(several["topics"].sum(axis=1), 1)
    np.testing.assert_allclose(several["topics"][1:3], 1 / 3)
    assert several["words"].tolist() == [9, 0, 0, 9]
    assert several["topics"][0].argmax() == one["topics"].argmax() != several["topics"][3].argmax()
    assert several["topics"][0].max() > 0.9
    assert found.predict([])["topics"].shape == (0, 3)
    with pytest.raises(RowError, match="row 0: w: must be a list of words"):
        found.predict({"w": 3})


def test_topics_before_any_document() -> None:
    found = fit(parse_spec({"name": "demo", "model": {"kind": "lda", "field": "w", "topics": 4}}), [])
    np.testing.assert_allclose(found.predict({"w": ["cat"]})["topics"], 0.25)


def test_a_model_of_ones_own_predicts_or_says_that_it_does_not() -> None:
    waiting = {"kind": "queue_models.waiting:WaitingTime", "field": "minutes"}
    found = fit(parse_spec({"name": "demo", "model": waiting}), [{"minutes": 4.0}] * 9).predict({})
    assert found["mean"] == pytest.approx(37 / 9)
    assert 1 - (1 + found["upper"] / 37) ** -10 == pytest.approx(0.975)
    visits = {"kind": "queue_models.visits:Visits", "field": "k"}
    with pytest.raises(CannotPredict) as caught:
        fit(parse_spec({"name": "demo", "model": visits}), []).predict({})
    assert str(caught.value) == (
        "model.kind: queue_models.visits:Visits does not predict: its class has no `inputs`, which says what a new row "
        "must have; docs/own-models.md explains how a model predicts"
    )


@pytest.mark.parametrize("default", ["prior", "pooled"])
def test_many_keys_at_once_are_those_that_are_followed_one_by_one(default: str) -> None:
    key = {"field": "city", "shards": 3, "default": default}
    rig = KeyedRig(keyed_spec(partitions=1, key=key, minibatch=10_000, linger_ms=1))
    cities = [str(i) for i in range(20)] + ["a/b", "b"]
    rig.send_events([(0, BEGIN, {"city": city, "k": i}) for i, city in enumerate(cities) for _ in range(i % 4 + 1)])
    run(rig)
    wanted = {city.encode() for city in ["3", "7", "a/b", "b", "unheard"]}
    found = KeyedSnapshots(rig.spec, rig.bus, wanted)
    assert found.are_there
    for label in wanted - {b"unheard"}:
        alone = rig.of_key(label.decode())
        assert alone is not None
        one, other = (PosteriorSnapshot(rig.spec, each) for each in (alone, found.of(label)))
        assert (one.n_events, one.version) == (other.n_events, other.version)
        assert one.posterior.natural.tolist() == other.posterior.natural.tolist()
    new = found.of(b"unheard")
    assert new.n_events == 0
    prior = rig.spec.model.posterior(rig.spec.model.empty()).natural.tolist()
    assert (PosteriorSnapshot(rig.spec, new).posterior.natural.tolist() == prior) == (default == "prior")
