"""Empirical Bayes: the hyperparameters of simulated keys are found again.

Standard errors are those of the evidence's curvature at the maximum. Each check leaves 5 of them: a false alarm is
below 6e-7, all of them together below 2e-5 (and the seeds are fixed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from streaminfer.models.conjugate import centred, pooled_gaussian, pooled_regression
from streaminfer.models.model import Model
from tests.models.examples import build

KEYS = 2000
LOCATIONS = {"mean"}
SIZES = np.random.default_rng(0).integers(1, 12, KEYS)
GROUPS = np.repeat(np.arange(KEYS), SIZES)


def coordinates(prior: Mapping[str, Any]) -> np.ndarray:
    """Logs of what is positive, and locations as they are, in the order of the mapping."""
    return np.concatenate([np.atleast_1d(v if k in LOCATIONS else np.log(v)) for k, v in prior.items()])


def at(model: Model, place: np.ndarray) -> Model:
    """The model whose prior has these coordinates."""
    values, prior = iter(place.tolist()), {}
    for name, own in model.prior_options.items():
        numbers = [next(values) for _ in np.atleast_1d(own)]
        numbers = numbers if name in LOCATIONS else [math.exp(v) for v in numbers]
        prior[name] = numbers if isinstance(own, list) else numbers[0]
    return model.with_prior(prior)


def curvature(model: Model, rows: np.ndarray, h: float = 1e-3) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and Hessian of the total log evidence at the model's prior, by central differences."""
    place = coordinates(model.prior_options)
    steps = h * np.eye(len(place))

    def total(change: np.ndarray) -> float:
        return float(at(model, place + change).log_evidences(rows).sum())

    gradient = np.array([(total(s) - total(-s)) / (2 * h) for s in steps])
    hessian = np.zeros((len(place), len(place)))
    for i, a in enumerate(steps):
        for j, b in enumerate(steps[: i + 1]):
            corners = total(a + b) - total(a - b) - total(b - a) + total(-a - b)
            hessian[i, j] = hessian[j, i] = corners / (4 * h * h)
    return gradient, hessian


def simulate(kind: str, rng: np.random.Generator) -> tuple[Model, Mapping[str, Any], np.ndarray]:
    """A model with an ordinary prior, the true one of its keys, and events (n, fields) of the groups."""
    n = len(GROUPS)
    if kind == "bernoulli":
        p = rng.beta(2.0, 5.0, KEYS)
        return build(kind, field="y"), {"alpha": 2.0, "beta": 5.0}, (rng.random(n) < p[GROUPS]).astype(float)[:, None]
    if kind == "categorical":
        true = [0.5, 2.0, 4.0]
        cumulative = rng.dirichlet(true, KEYS).cumsum(axis=1)[GROUPS]
        events = (rng.random((n, 1)) > cumulative[:, :2]).sum(axis=1).astype(float)[:, None]
        return build(kind, field="c", categories=["a", "b", "c"]), {"concentration": true}, events
    if kind == "poisson":
        rate, exposure = rng.gamma(3.0, 1 / 0.2, KEYS), rng.uniform(0.2, 4, n)
        events = np.column_stack([rng.poisson(rate[GROUPS] * exposure), exposure])
        return build(kind, field="k", exposure="e"), {"shape": 3.0, "rate": 0.2}, events
    if kind == "gaussian":
        true = {"mean": [3.0, -50.0], "kappa": 0.4, "dof": 9.0, "scale": [5.0, 300.0]}
        keys = build(kind, fields=["u", "v"], prior=true)
        draws = keys.posterior(keys.empty()).sample(rng, KEYS)
        noise = np.linalg.cholesky(draws["cov"])[GROUPS] @ rng.normal(size=(n, 2, 1))
        return build(kind, fields=["u", "v"]), true, draws["mean"][GROUPS] + noise[:, :, 0]
    through_zero = kind == "through zero"
    weights = {"mean": [1.0, -2.0, 0.5][through_zero:], "precision": [0.5, 4.0]}
    true = {**weights, **({} if through_zero else {"intercept_precision": 0.3}), "shape": 4.0, "rate": 6.0}
    options = {"features": ["a", "b"], "target": "y", "intercept": not through_zero}
    keys = build("linear_regression", **options, prior=true)
    draws = keys.posterior(keys.empty()).sample(rng, KEYS)
    z = np.column_stack([np.ones((n, 1 - through_zero)), rng.normal(size=(n, 2)) * [1.0, 3.0] + [0.5, 1.0]])
    target = (z * draws["weights"][GROUPS]).sum(axis=1) + rng.normal(size=n) * np.sqrt(draws["noise_variance"][GROUPS])
    return build("linear_regression", **options), true, np.column_stack([z[:, -2:], target])


@pytest.mark.parametrize(
    "kind", ["bernoulli", "categorical", "poisson", "gaussian", "linear_regression", "through zero"]
)
def test_true_hyperparameters_are_found_again(kind: str) -> None:
    model, true, events = simulate(kind, np.random.default_rng(1))
    rows = model.statistics_by(events, GROUPS, KEYS)
    pooled = model.pooled(rows)
    gradient, hessian = curvature(pooled, rows)
    cov = np.linalg.inv(-hessian)
    errors = np.sqrt(cov.diagonal())
    found = {name: pooled.prior_options[name] for name in true}
    assert list(pooled.prior_options) == list(found)
    # Newton's step from the place found is a small part of a standard error: the gradient is 0.
    assert (np.abs(cov @ gradient) <= 1e-2 * errors).all()
    assert (np.abs(coordinates(found) - coordinates(true)) <= 5 * errors).all()
    assert (errors <= [0.6 if name in LOCATIONS else 0.25 for name in true for _ in np.atleast_1d(true[name])]).all()
    # The start, and the truth, are not better; the truth is worse by about half a chi-square of these degrees.
    gain = pooled.log_evidences(rows).sum() - model.with_prior(true).log_evidences(rows).sum()
    assert 0 <= gain <= 5 * len(errors)
    assert pooled.log_evidences(rows).sum() > model.log_evidences(rows).sum() + 10


def some_moments(d: int, k: int = 30) -> centred.Rows:
    rng = np.random.default_rng(2)
    events = rng.normal(size=(200, d)) * np.arange(1, d + 1) + 3
    (rows,) = centred.parts(centred.statistics_by(events, rng.integers(0, k, 200), k), d)
    return rows


@pytest.mark.parametrize(
    ("module", "prior"),
    [
        (pooled_gaussian, pooled_gaussian.Prior(np.array([1.0, 2.0, 0.5]), 0.3, 4.2, np.array([0.7, 3.0, 11.0]))),
        (pooled_regression, pooled_regression.Prior(np.array([0.2, -1.0]), np.array([0.3, 6.0]), 1.4, 2.5)),
        (pooled_regression, pooled_regression.Prior(np.array([0.2, -1.0, 1.5]), np.array([0.3, 6.0, 2.0]), 1.4, 2.5)),
    ],
)
def test_gradients_equal_central_differences(module: Any, prior: Any) -> None:
    rows = some_moments(3)
    evidences, gradient = module.log_evidences_and_gradient(rows, prior)
    np.testing.assert_array_equal(evidences, module.log_evidences(rows, prior))
    for name, value in prior._asdict().items():
        for i in range(np.size(value)):
            step = 1e-5 * np.eye(np.size(value))[i].reshape(np.shape(value))
            up, down = (module.log_evidences(rows, prior._replace(**{name: value + s})).sum() for s in (step, -step))
            assert np.ravel(getattr(gradient, name))[i] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-6)


def test_no_prior_is_stronger_than_its_keys_can_tell() -> None:
    """With k keys of n events n / (n + s) is the root of 2 / (k - 1), times 1 - 1/n if the noise is not known."""
    coin = build("bernoulli", field="y").pooled(np.tile([3.0, 7.0], (50, 1)))
    assert coin.alpha + coin.beta == pytest.approx(10 * math.sqrt(49 / 2 * 0.9) - 10, rel=1e-9)
    assert coin.alpha / (coin.alpha + coin.beta) == pytest.approx(0.3, abs=1e-3)
    counts = build("poisson", field="k").pooled(np.tile([20.0, 10.0, -15.0], (50, 1)))
    assert counts.rate == pytest.approx(10 * math.sqrt(49 / 2) - 10, rel=1e-9)
    assert counts.shape / counts.rate == pytest.approx(2.0, rel=1e-9)
    cloud = build("gaussian", fields=["u"])
    alike = cloud.pooled(np.tile(cloud.statistics(np.arange(10.0)[:, None]), (50, 1)))
    assert alike.kappa == pytest.approx(10 * math.sqrt(49 / 2 * 0.9) - 10, rel=1e-9)
    assert alike.dof == pytest.approx(9 * math.sqrt(49 / 2) - 9, rel=1e-9)


def test_one_event_a_key_does_not_tell_keys_apart() -> None:
    coin = build("bernoulli", field="y").pooled(np.repeat([[1.0, 0.0], [0.0, 1.0]], [30, 20], axis=0))
    assert coin.alpha + coin.beta == pytest.approx(1.0, rel=0.02)
    assert coin.alpha / (coin.alpha + coin.beta) == pytest.approx(0.6, rel=0.02)
    cloud = build("gaussian", fields=["u"])
    events = np.random.default_rng(5).normal(300, 2, (50, 1))
    pooled = cloud.pooled(cloud.statistics_by(events, np.arange(50), 50))
    assert (pooled.kappa, pooled.dof) == pytest.approx((1.0, 2.0))
    line = build("linear_regression", features=["x"], target="y")
    pooled = line.pooled(line.statistics_by(np.column_stack([events, events]), np.arange(50), 50))
    assert pooled.shape == pytest.approx(1.0)
    assert pooled.weights_precision == pytest.approx((1.0, events.var()))


def test_a_feature_that_never_changes_leaves_weights_of_the_size_of_the_data() -> None:
    line = build("linear_regression", features=["x"], target="y")
    events = np.column_stack([np.ones(500), np.arange(500) % 20])
    pooled = line.pooled(line.statistics_by(events, np.arange(500) % 20, 20))
    assert np.abs(pooled.weights_mean).max() < 100
    assert pooled.weights_mean[0] + pooled.weights_mean[1] == pytest.approx(9.5, rel=1e-3)
    assert min(pooled.weights_precision) > 1e-7


def test_fewer_events_than_numbers_of_a_prior_change_nothing() -> None:
    cloud = build("gaussian", fields=["u"])
    rows = cloud.statistics_by(np.array([[1.0], [2.0], [3.0], [5.0]]), np.array([0, 1, 1, 2]), 3)
    assert cloud.pooled(rows[:2]) is cloud
    assert cloud.pooled(rows) is not cloud


def test_what_was_never_seen_stays_possible() -> None:
    """As far as the events allow: 20 events without one of c, or 30 units of time without one."""
    die = build("categorical", field="c", categories=["a", "b", "c"]).pooled(
        np.array([[3.0, 5, 0], [7, 1, 0], [2, 2, 0]])
    )
    assert 0.05 < die.concentration[2] < 0.3
    none = build("poisson", field="k").pooled(np.array([[0.0, 10, 0], [0, 20, 0]]))
    assert (none.shape, none.rate) == pytest.approx((0.5, 30.0))


@pytest.mark.parametrize("centre", [0.0, 1e7])
@pytest.mark.parametrize("kind", ["gaussian", "linear_regression"])
def test_evidences_keep_their_digits_far_from_zero(kind: str, centre: float) -> None:
    """`posterior`, which has 50-digit oracles of its own, is the oracle: 1e-9 if mean/sd is 1e7."""
    names = {"gaussian": {"fields": ["a", "b", "y"]}, "linear_regression": {"features": ["a", "b"], "target": "y"}}
    rng = np.random.default_rng(3)
    events = rng.normal(size=(400, 3)) @ np.array([[1, 0.3, -0.2], [0, 1, 0.5], [0.4, 0, 1]]) + centre
    for prior in ({}, {"mean": [centre, centre, centre]}):
        model = build(kind, **names[kind], prior=prior)
        rows = model.statistics_by(events, rng.integers(0, 60, 400), 60)
        each = [model.posterior(row).log_evidence() for row in rows]
        np.testing.assert_allclose(model.log_evidences(rows), each, rtol=1e-9, atol=1e-9)
