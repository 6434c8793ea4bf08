"""A snapshot as users see it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from streaminfer import PosteriorSnapshot, RowError, fit, parse_spec
from streaminfer.runtime.api.snapshot import SMALL
from streaminfer.spec import Spec
from tests.made import new_snapshot
from tests.spec.documents import SMALLEST, document

PROMISED = [
    "name", "key", "version", "n_events", "n_effective", "n_lost", "exactness", "method", "family", "parameters",
    "natural", "frontier", "read_to", "created_at",
]  # fmt: skip
PARAMETERS = {
    "bernoulli": ("beta", ["p"]),
    "categorical": ("dirichlet", ["p"]),
    "poisson": ("gamma", ["rate"]),
    "gaussian": ("normal-inverse-wishart", ["mean", "cov"]),
    "linear_regression": ("normal-inverse-gamma", ["weights", "noise_variance"]),
}


def _spec(kind: str) -> Spec:
    return parse_spec(document(kind))


def _coins() -> PosteriorSnapshot:
    """Three ones and one zero on a uniform prior: Beta(4, 2)."""
    return fit(_spec("bernoulli"), [{"y": 1}, {"y": 1}, {"y": 1}, {"y": 0}])


@pytest.mark.parametrize("kind", SMALLEST)
def test_the_document_of_an_empty_posterior(kind: str) -> None:
    found = fit(_spec(kind), []).to_json()
    assert set(PROMISED) <= set(found)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["name"], found["key"], found["n_events"], found["score"]) == ("demo", None, 0, None)
    family, parameters = PARAMETERS[kind]
    assert (found["family"], list(found["parameters"])) == (family, parameters)
    assert (found["exactness"], found["method"], found["model"]) == ("exact", "svb", kind)


def test_moments_that_do_not_exist_are_null() -> None:
    found = fit(_spec("linear_regression"), []).to_json()["parameters"]
    assert found["noise_variance"] == {"mean": None, "sd": None}
    assert found["weights"]["sd"] == [None, None, None]
    assert found["weights"]["cov"] == [[None] * 3] * 3


def test_every_value_of_the_document() -> None:
    spec = parse_spec(document("bernoulli", name="coins"))
    snapshot = new_snapshot(
        fingerprint=spec.fingerprint, version=7, statistics=np.array([3.0, 1.0]), positions={1: 20, 0: 10}, epoch=2,
        read_to=5, created_at=1_700_000_000_123, n_events=4, n_lost=1, n_dead_lettered=2, n_damped=3, n_rejected=6,
        n_unconverged=3, n_dropped=8, score=-3.0, staleness=9,
    )  # fmt: skip
    found = PosteriorSnapshot(spec, snapshot).to_json()
    moments = found.pop("parameters")["p"]
    assert moments == {"mean": pytest.approx(2 / 3), "sd": pytest.approx((2 / 63) ** 0.5)}
    assert found.pop("log_evidence") == pytest.approx(np.log(1 / 20))
    assert found == {
        "name": "coins", "key": None, "version": 7, "n_events": 4, "n_effective": 4, "n_lost": 1, "n_dead_lettered": 2,
        "n_damped": 3, "n_rejected": 6, "n_unconverged": 3, "n_dropped": 8, "staleness": 9, "exactness": "exact",
        "method": "svb", "model": "bernoulli", "family": "beta", "natural": [4.0, 2.0], "score": -0.75, "drift": None,
        "read_to": 5, "epoch": 2, "frontier": {"coins.events-0": 10, "coins.events-1": 20},
        "fingerprint": spec.fingerprint, "created_at": "2023-11-14T22:13:20.123Z",
    }  # fmt: skip


@pytest.mark.parametrize(("categories", "there"), [(SMALL, True), (SMALL + 1, False)])
def test_covariances_are_there_where_they_are_small(categories: int, there: bool) -> None:
    names = [str(i) for i in range(categories)]
    spec = parse_spec(document(model={"kind": "categorical", "field": "c", "categories": names}))
    found = fit(spec, [{"c": "3"}])
    assert ("cov" in found.to_json()["parameters"]["p"]) is there
    assert found.cov["p"].shape == (categories, categories)


def test_moments_by_parameter_name() -> None:
    found = fit(_spec("gaussian"), [{"u": 1.0, "v": 2.0}, {"u": 3.0, "v": 1.0}, {"u": 2.0, "v": 4.0}])
    assert found.mean["mean"].shape == (2,)
    assert found.mean["cov"].shape == (2, 2)
    assert found.cov["mean"].shape == (2, 2)
    np.testing.assert_allclose(np.sqrt(found.cov["mean"].diagonal()), found.sd["mean"])


def test_samples_have_the_moments() -> None:
    """20,000 draws; 5 standard errors of the mean of Beta(4, 2) are 0.0063."""
    draws = _coins().sample(np.random.default_rng(1), 20_000)["p"]
    assert draws.shape == (20_000,)
    assert abs(draws.mean() - 2 / 3) < 0.0064


def test_log_predictive_of_one_row_and_of_several() -> None:
    one = _coins().log_predictive({"y": 1})
    assert isinstance(one, float)
    assert one == pytest.approx(np.log(4 / 6))
    np.testing.assert_allclose(_coins().log_predictive([{"y": 1}, {"y": 0}]), np.log([4 / 6, 2 / 6]))
    with pytest.raises(RowError, match=r"row 1: y: must be 0 or 1, or true or false \(got 5\)"):
        _coins().log_predictive([{"y": 1}, {"y": 5}])


def test_it_prints_what_matters() -> None:
    assert repr(_coins()) == "<demo version 1: 4 events, p=0.6667>"


@pytest.mark.parametrize("kind", SMALLEST)
def test_to_inference_data(kind: str) -> None:
    rows: dict[str, list[dict[str, Any]]] = {
        "bernoulli": [{"y": 1}],
        "categorical": [{"c": "a"}],
        "poisson": [{"k": 3}],
        "gaussian": [{"u": 1.0, "v": 2.0}],
        "linear_regression": [{"a": 1.0, "b": 2.0, "y": 3.0}],
    }
    found = fit(_spec(kind), rows[kind])
    tree = found.to_inference_data(np.random.default_rng(2), draws=50)
    sample = found.sample(np.random.default_rng(2), 50)
    assert set(tree["posterior"].data_vars) == set(sample)
    for name, values in sample.items():
        assert tree["posterior"][name].shape == (1, *values.shape)
        np.testing.assert_array_equal(tree["posterior"][name].values[0], values)
    assert tree["posterior"].sizes["draw"] == 50
