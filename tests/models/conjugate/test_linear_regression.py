"""Linear regression against 50-digit batch posteriors, also where mean/sd is 1e7, and its own domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from streaminfer.models.conjugate import centred, roots
from streaminfer.models.model import DomainError
from streaminfer.models.options import OptionsError
from tests.models import exact
from tests.models.examples import build

FEATURES = ["a", "b", "c"]
PRIORS: list[dict[str, Any]] = [{}, {"mean": 0.5, "precision": [0.1, 1, 3], "intercept_precision": 0.5, "shape": 3}]
# The means of the features in units of their sd, which is near 1.
CENTRES = [(1e7, 1e7, 1e7), (1.0, 1e7, -1e7), (0.0, 0.0, 0.0)]


def draw(centre: tuple[float, ...], target_mean: float, n: int = 120) -> np.ndarray:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(n, 3)) @ np.array([[1, 0.3, -0.2], [0, 1, 0.5], [0.4, 0, 1]])
    target = features @ [1.0, -2.0, 0.5] + 0.6 * rng.normal(size=n)
    return np.column_stack([features + centre, target + target_mean])


def in_minibatches(model: Any, events: np.ndarray) -> np.ndarray:
    statistics = model.empty()
    for part in np.array_split(events, 13):
        statistics = model.merge(statistics, model.statistics(part))
    return statistics


def assert_exact(model: Any, statistics: np.ndarray, events: np.ndarray) -> None:
    """Each number to 1e-9 of itself: weights, their sds, the noise variance and the natural parameters."""
    posterior, oracle = model.posterior(statistics), exact.linear_regression(model, events)
    moments = posterior.moments()
    np.testing.assert_allclose(moments["weights"].mean, oracle["weights"], rtol=1e-9)
    np.testing.assert_allclose(moments["weights"].sd, oracle["sd"], rtol=1e-9)
    sds = np.outer(oracle["sd"], oracle["sd"])
    np.testing.assert_allclose(moments["weights"].cov / sds, oracle["cov"] / sds, atol=3e-9)
    np.testing.assert_allclose(moments["noise_variance"].mean, oracle["noise_variance"], rtol=1e-9)
    np.testing.assert_allclose(posterior.natural, oracle["natural"], rtol=1e-9)
    assert posterior.log_evidence() == pytest.approx(float(oracle["log_evidence"]), rel=1e-9)


@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize("target_mean", [0.0, 1e7])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("prior", PRIORS)
def test_equals_the_exact_posterior(
    centre: tuple[float, ...], target_mean: float, intercept: bool, prior: dict[str, Any]
) -> None:
    model = build("linear_regression", features=FEATURES, target="y", intercept=intercept, prior=prior)
    events = draw(centre, target_mean)
    assert_exact(model, in_minibatches(model, events), events)


@pytest.mark.parametrize("intercept", [True, False])
def test_raw_sums_of_squares_are_found(intercept: bool) -> None:
    """The mutant: the same statistics, by X'X - n mean mean'."""
    model = build("linear_regression", features=FEATURES, target="y", intercept=intercept)
    events = draw(CENTRES[0], 1e7)
    statistics = in_minibatches(model, events)
    mean = events.mean(axis=0)
    raw = events.T @ events - len(events) * np.outer(mean, mean)
    statistics[-raw.size :] = raw.ravel()
    with pytest.raises((AssertionError, DomainError)):
        assert_exact(model, statistics, events)


@pytest.mark.parametrize("intercept", [True, False])
def test_predictives_keep_their_digits_far_from_zero(intercept: bool) -> None:
    """The ratio of two 50-digit evidences is the oracle."""
    model = build("linear_regression", features=FEATURES, target="y", intercept=intercept)
    events = draw((1e7, 1e7, 1e7), 1e7, 40)
    posterior = model.posterior(in_minibatches(model, events[5:]))
    before = exact.linear_regression(model, events[5:])["log_evidence"]
    for row, ours in zip(events[:5], posterior.log_predictive(events[:5]), strict=True):
        after = exact.linear_regression(model, np.vstack([events[5:], row]))["log_evidence"]
        # Without an intercept z' P^-1 z comes from features of size 1e7, which float64 places to 1e-9.
        assert ours == pytest.approx(float(after - before), rel=1e-8, abs=1e-8)


def test_the_predictive_is_students_t() -> None:
    model = build("linear_regression", features=["a"], target="y", prior=PRIORS[1] | {"precision": 0.7})
    posterior = model.posterior(model.statistics(draw((0.0, 2.0, 3.0), 1.0)[:, [1, 3]]))
    mean, factor, shape, rate = posterior.parameters
    new = np.array([[0.3, -1.0], [2.0, 4.0]])
    for row, ours in zip(new, posterior.log_predictive(new), strict=True):
        z = np.array([1.0, row[0]])
        scale = np.sqrt(rate / shape * (1 + z @ np.linalg.inv(factor @ factor.T) @ z))
        assert ours == pytest.approx(stats.t(2 * shape, z @ mean, scale).logpdf(row[1]), rel=1e-10)


def test_the_evidence_equals_quadrature() -> None:
    prior = {"mean": 0.3, "precision": 0.8, "shape": 2.5, "rate": 1.2}
    model = build("linear_regression", features=["a"], target="y", intercept=False, prior=prior)
    events = np.array([[0.5, 1.0], [-1.0, -0.4], [2.0, 1.1]])

    # A trapezoidal rule on a grid wide enough for both tails converges faster than any power of the step.
    w, logs = np.linspace(-12, 12, 241)[None, :], np.linspace(-6, 9, 241)[:, None]
    s2 = np.exp(logs)
    density = stats.norm(0.3, np.sqrt(s2 / 0.8)).pdf(w) * stats.invgamma(2.5, scale=1.2).pdf(s2) * s2
    likelihood = np.prod([stats.norm(x * w, np.sqrt(s2)).pdf(y) for x, y in events], axis=0)
    total = integrate.trapezoid(integrate.trapezoid(density * likelihood, w[0], axis=1), logs[:, 0])
    assert model.posterior(model.statistics(events)).log_evidence() == pytest.approx(np.log(total), rel=1e-6)


def test_moments_that_do_not_exist_are_nan() -> None:
    model = build("linear_regression", features=["a"], target="y", prior={"shape": 0.4})
    events = np.array([[1.0, 2.0], [2.0, 1.0], [0.0, 3.0], [4.0, 4.0]])
    nothing = model.posterior(model.empty()).moments()
    assert np.isnan(nothing["weights"].mean).all()
    one = model.posterior(model.statistics(events[:1])).moments()
    assert np.isfinite(one["weights"].mean).all()
    assert np.isnan(one["weights"].sd).all()
    assert np.isnan(one["weights"].cov).all()
    assert np.isnan(one["noise_variance"].mean)
    two = model.posterior(model.statistics(events[:2])).moments()
    assert np.isfinite(two["weights"].cov).all()
    assert np.isfinite(two["noise_variance"].mean)
    assert np.isnan(two["noise_variance"].sd)
    four = model.posterior(model.statistics(events)).moments()
    assert np.isfinite(four["noise_variance"].sd)
    assert four["noise_variance"].mean.shape == ()


def test_collinear_and_constant_features_have_a_posterior() -> None:
    model = build("linear_regression", features=FEATURES, target="y", prior={"precision": 1e-6})
    x = 1e6 * np.random.default_rng(2).normal(size=50)
    events = np.column_stack([x, x, np.full(50, 5.1), 3 * x])
    moments = model.posterior(in_minibatches(model, events)).moments()
    assert moments["weights"].mean[1:3] == pytest.approx([1.5, 1.5], rel=1e-3)
    assert np.isfinite(moments["weights"].sd).all()
    assert moments["noise_variance"].mean < 1.0


def test_the_posterior_from_the_factor_alone_agrees() -> None:
    """The factor that the square-root form builds is the Cholesky factor of the natural parameters' precision."""
    model = build("linear_regression", features=FEATURES, target="y")
    posterior = model.posterior(in_minibatches(model, draw((1.0, 2.0, 3.0), 1.0)))
    precision = posterior.natural[4:-2].reshape(4, 4)
    np.testing.assert_allclose(posterior.parameters.factor, np.linalg.cholesky(precision), rtol=1e-9, atol=1e-12)


def test_an_indefinite_scatter_is_no_scatter() -> None:
    model = build("linear_regression", features=["a"], target="y")
    good = model.statistics(np.array([[1.0, 2.0], [2.0, 1.0], [0.0, 3.0]]))
    for change in ({5: -1.0}, {6: 10.0, 7: 10.0}, {6: 1.0, 7: -1.0}, {5: 0.0, 6: 1.0, 7: 1.0}, {0: 0.0}):
        broken = good.copy()
        for place, value in change.items():
            broken[place] = value
        with pytest.raises(DomainError):
            model.posterior(broken)
    assert centred.size(2) == len(good)
    with pytest.raises(DomainError):
        roots.root(np.array([[1.0, 0.9, 0.9], [0.9, 1.0, -0.9], [0.9, -0.9, 1.0]]))


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"features": ["a", "y"]}, "target"),
        ({"features": ["a", "b"], "prior": {"precision": [1, 2, 3]}}, "prior.precision"),
        ({"features": ["a", "b"], "prior": {"mean": [1, 2]}}, "prior.mean"),
        ({"features": ["a", "b"], "intercept": False, "prior": {"mean": [1, 2, 3]}}, "prior.mean"),
    ],
)
def test_options_that_do_not_fit_together(options: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionsError) as error:
        build("linear_regression", target="y", **options)
    assert error.value.problem.field == field


def test_fields_are_the_features_and_then_the_target() -> None:
    model = build("linear_regression", features=["b", "a"], target="y")
    assert [field.name for field in model.fields] == ["b", "a", "y"]
    assert model.weights_precision == (1e-6, 1.0, 1.0)
    assert build("linear_regression", features=["a"], target="y", intercept=False).weights_precision == (1.0,)
