"""Logistic regression in one pass against its true posterior, 20,000 events with features that are correlated by 0.7.

The data and the draws of the truth are fixed, so there are no false alarms. Six other seeds of the data pass with 10
weights, three with 50.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import special

from streaminfer import fit
from streaminfer.models.binary.local_steps import full
from streaminfer.variational import base as bases
from tests.models.examples import build
from tests.statistical.importance import Distance, Truth, distance, truth
from tests.statistical.streaming import Learn, by_svb, streamed

N = 20_000
together = pytest.mark.xdist_group("logistic-truth")


@cache
def drawn(d: int) -> np.ndarray:
    """Events of d weights, the first of which is an intercept."""
    rng = np.random.default_rng(1)
    features = np.sqrt(0.7) * rng.normal(size=(N, 1)) + np.sqrt(0.3) * rng.normal(size=(N, d - 1))
    weights = 1.4 * rng.normal(size=d) / np.sqrt(d)
    odds = features @ weights[1:] - 0.5
    return np.column_stack([features, rng.random(N) < special.expit(odds)]).astype(np.float64)


def classifier(d: int, **options: Any) -> Any:
    return build("logistic_regression", features=[f"x{i}" for i in range(1, d)], target="y", **options)


@cache
def exact(d: int) -> Truth:
    found = truth(classifier(d), drawn(d))
    assert found.worth > 2500
    return found


def assert_near(found: Distance) -> None:
    assert found.shift <= 0.35, found
    assert found.narrowest >= 0.93, found
    assert found.widest <= 1.07, found
    assert found.coverage >= 0.92, found


def of_one_pass(model: Any, minibatch: int, staleness: int = 0, learn: Learn = by_svb) -> Distance:
    d = len(model.weights_mean)
    return distance(exact(d), streamed(model, drawn(d), minibatch, staleness, learn).moments()["weights"])


@together
@pytest.mark.parametrize("staleness", [0, 8])
@pytest.mark.parametrize("minibatch", [64, 256, 1024])
def test_ten_weights(minibatch: int, staleness: int) -> None:
    assert_near(of_one_pass(classifier(10), minibatch, staleness))


@together
@pytest.mark.parametrize(
    ("minibatch", "staleness"),
    [
        (256, 8),
        *(pytest.param(b, s, marks=pytest.mark.long) for b in (64, 256, 1024) for s in (0, 8) if (b, s) != (256, 8)),
    ],
)
def test_fifty_weights(minibatch: int, staleness: int) -> None:
    assert_near(of_one_pass(classifier(50), minibatch, staleness))


def from_no_sites(model: Any, base: bases.Base, events: np.ndarray) -> np.ndarray:
    """One sweep of expectation propagation from the base, without the mode."""
    rows, signs = model.design(events)
    weights = base.posterior.weights
    margins = signs * (rows @ weights.mean), weights.deviations(rows) ** 2
    return full.matched(model.link, *margins, np.ones(len(rows))).change(rows, signs)


def by_one_gradient(model: Any, base: bases.Base, events: np.ndarray) -> np.ndarray:
    return model.expected(base.posterior, events)


@together
@pytest.mark.parametrize("learn", [from_no_sites, by_one_gradient])
def test_a_step_from_the_base_alone_is_found(learn: Learn) -> None:
    with pytest.raises(AssertionError):
        assert_near(of_one_pass(classifier(10), 1024, learn=learn))


@together
@pytest.mark.parametrize("minibatch", [64, 256, 1024])
def test_the_bound_is_found(minibatch: int) -> None:
    with pytest.raises(AssertionError):
        assert_near(of_one_pass(classifier(10, local="bound"), minibatch))


def with_a_rare_feature() -> np.ndarray:
    """x4 is there in one event of 500, and then it decides."""
    rng = np.random.default_rng(1)
    features = np.column_stack([rng.normal(size=(N, 3)), rng.random(N) < 0.002]).astype(np.float64)
    odds = features @ [0.8, -0.5, 0.3, 4.0] - 0.5
    return np.column_stack([features, rng.random(N) < special.expit(odds)]).astype(np.float64)


def test_a_rare_feature_with_a_large_weight_needs_three_passes() -> None:
    """A minibatch has hardly ever two of its events, so one pass learns each by itself, from a base that is vague."""
    events, names = with_a_rare_feature(), ["x1", "x2", "x3", "x4", "y"]
    model = {"kind": "logistic_regression", "features": names[:-1], "target": "y"}
    wanted = truth(build(**model), events, 8000)
    rows = [dict(zip(names, row, strict=True)) for row in events.tolist()]
    found = {}
    for passes in (1, 3):
        inference = {"method": "memoized", "epochs": passes}
        found[passes] = distance(
            wanted, fit({"name": "rare", "model": model, "inference": inference}, rows).moments["weights"]
        )
    assert wanted.worth > 7000
    assert found[3].coverage >= 0.93
    assert found[3].shift < 0.1
    assert found[1].coverage < 0.9
