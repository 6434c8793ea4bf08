"""Predictions of new events against closed forms of other people, draws of the parameters, and simulated events.

Statistical checks leave 5.5 standard errors: each false alarm is below 4e-8.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from streaminfer.families.special import stdtrit
from streaminfer.models.model import Predictions, predicts
from streaminfer.models.predictive import negative_binomial, student_t
from streaminfer.variational import base
from streaminfer.variational.methods.svb import change
from tests.contracts.model_harness import extremes
from tests.models.examples import EXAMPLES, Example, build, model_of
from tests.models.latent_examples import LATENT_EXAMPLES

ROOM = 5.5
ALL = [*EXAMPLES, *LATENT_EXAMPLES]
EVERY = pytest.mark.parametrize("example", ALL, ids=[example.name for example in ALL])


def learned(example: Example, n: int = 60, seed: int = 3) -> Any:
    """A posterior of some events."""
    model, events = model_of(example), example.events(np.random.default_rng(seed), n)
    if hasattr(model, "statistics"):
        return model.posterior(model.statistics(events))
    return model.posterior(change(model, base.prior(model), events).statistics)


def example_of(name: str) -> Example:
    return next(each for each in ALL if each.name == name)


def inputs_of(example: Example, n: int, seed: int = 4) -> np.ndarray:
    """Rows (n, inputs) as a prediction takes them."""
    model: Any = model_of(example)
    columns = [model.fields.index(each) for each in model.inputs]
    return example.events(np.random.default_rng(seed), n)[:, columns]


@EVERY
def test_what_every_prediction_must_be(example: Example) -> None:
    model: Any = model_of(example)
    assert predicts(model)
    assert set(model.inputs) <= set(model.fields)
    posterior, rows = learned(example), inputs_of(example, 7)
    found: Predictions = posterior.predict(rows, 0.9)
    for name, values in found.items():
        assert len(values) == 7, name
        assert values.ndim == 1 or not model.outputs or values.shape == (7, len(model.outputs)), name
        assert np.isfinite(values).all(), name
        np.testing.assert_allclose(posterior.predict(rows[3:5], 0.9)[name], values[3:5], rtol=1e-9)
        assert posterior.predict(rows[:0], 0.9)[name].shape == (0, *values.shape[1:])
    if "lower" in found:
        wider = posterior.predict(rows, 0.99)
        assert (wider["lower"] <= found["lower"]).all()
        assert (found["lower"] < found["upper"]).all()
        assert (found["upper"] <= wider["upper"]).all()
        assert (wider["upper"] - wider["lower"] > found["upper"] - found["lower"]).all()


@EVERY
def test_extreme_rows_and_no_events_have_predictions(example: Example) -> None:
    """Warnings are errors in this suite. A moment that does not exist is NaN, an end may be infinite."""
    model: Any = model_of(example)
    large, small = extremes(model)
    columns = [model.fields.index(each) for each in model.inputs]
    rows = np.vstack([large, small])[:, columns]
    for posterior in (learned(example), model.posterior(model.empty())):
        for name, values in posterior.predict(rows, 0.95).items():
            assert name in {"mean", "sd"} or not np.isnan(values).any()


@pytest.mark.parametrize("name", ["line", "skewed-line", "line-through-zero"])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_a_linear_regression_predicts_the_textbooks_t(name: str, level: float) -> None:
    """Bishop 2006, 3.58, by plain matrices: t with location w z and squared scale rate / shape (1 + z' P^-1 z)."""
    example = example_of(name)
    model: Any = model_of(example)
    events, rows = example.events(np.random.default_rng(3), 60), inputs_of(example, 9)

    def design(features: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(features)), features]) if model.intercept else features

    Z, y, P0, m0 = design(events[:, :-1]), events[:, -1], np.diag(model.weights_precision), np.array(model.weights_mean)
    P = P0 + Z.T @ Z
    m = np.linalg.solve(P, P0 @ m0 + Z.T @ y)
    shape, rate = model.shape + 30, model.rate + 0.5 * (y @ y + m0 @ P0 @ m0 - m @ P @ m)
    z = design(rows)
    scale = np.sqrt(rate / shape * (1 + np.einsum("ij,jk,ik->i", z, np.linalg.inv(P), z)))
    exact = stats.t(2 * shape, z @ m, scale)
    found = learned(example).predict(rows, level)
    assert list(found) == ["mean", "sd", "lower", "upper"]
    for each, wanted in zip(found.values(), (exact.mean(), exact.std(), *exact.interval(level)), strict=True):
        np.testing.assert_allclose(each, wanted, rtol=1e-7)


def test_a_prediction_far_from_zero_keeps_its_digits() -> None:
    """Features and target with means of ten million times their spread."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=200)
    y = 3 * x + 0.1 * rng.normal(size=200)
    model = build("linear_regression", features=["x"], target="y", prior={"intercept_precision": 1e-40})
    far = model.posterior(model.statistics(np.column_stack([x + 1e7, y + 1e7])))
    near = model.posterior(model.statistics(np.column_stack([x, y])))
    rows = np.array([[-1.0], [0.5], [2.0]])
    moved, still = far.predict(rows + 1e7, 0.95), near.predict(rows, 0.95)
    np.testing.assert_allclose(moved["mean"] - 1e7, still["mean"], atol=1e-4)
    np.testing.assert_allclose(moved["sd"], still["sd"], rtol=1e-4)


@pytest.mark.parametrize(("shape", "rate"), [(3, 0.5), (0.01, 1e-3), (50, 0.2), (1e6, 1e6), (1e3, 1.0)])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_counts_are_negative_binomial(shape: float, rate: float, level: float) -> None:
    exposure = np.array([1e-3, 0.1, 1.0, 2.0, 1.0, 1e3, 1e5])
    exact = stats.nbinom(shape, rate / (rate + exposure))
    found = negative_binomial(exposure, shape, rate, level)
    np.testing.assert_allclose(found["mean"], exact.mean(), rtol=1e-6)
    np.testing.assert_allclose(found["sd"], exact.std(), rtol=1e-6)
    lower, upper = exact.interval(level)
    np.testing.assert_array_equal(found["lower"], np.maximum(lower, 0))
    np.testing.assert_array_equal(found["upper"], upper)


@pytest.mark.parametrize(("shape", "ratio"), [(1e12, 1e3), (1e11, 10.0), (1e50, 1e-30), (40.0, 1e30)])
def test_large_counts_are_as_good_as_continuous(shape: float, ratio: float) -> None:
    """By the Gaussian with its skewness if the shape is large, else by the Gamma that the rate has."""
    found = negative_binomial(np.array([ratio]), shape, 1.0, 0.95)
    if shape > 1e6:
        ends = shape * ratio + stats.norm.ppf([0.025, 0.975]) * math.sqrt(shape * ratio * (1 + ratio))
    else:
        ends = ratio * stats.gamma(shape).ppf([0.025, 0.975])
    room = 1e-4 * (ends[1] - ends[0]) + 1
    np.testing.assert_allclose([found["lower"][0], found["upper"][0]], ends, rtol=1e-12, atol=room)


@pytest.mark.parametrize("dof", [1e-50, 1e-3, 0.01, 0.5, 1.0, 2.0, 2.5, 1e3, 1e15, 1e50])
def test_a_t_of_any_degrees_of_freedom(dof: float) -> None:
    found = student_t(np.array([3.0]), np.array([2.0]), dof, 0.95)
    assert np.isnan(found["mean"][0]) == (dof <= 1)
    assert np.isnan(found["sd"][0]) == (dof <= 2)
    if dof <= 1e-3:  # (1 / 20)^(1 / dof) leaves float64
        assert (found["lower"][0], found["upper"][0]) == (-np.inf, np.inf)
    else:
        assert special.stdtr(dof, (found["upper"][0] - 3) / 2) == pytest.approx(0.975, abs=1e-9)
        assert found["upper"][0] - 3 == pytest.approx(3 - found["lower"][0])
    assert stdtrit(1e50, 0.025) == pytest.approx(stats.norm.ppf(0.025))


def test_events_of_two_and_of_more_kinds() -> None:
    """The first of a beta-binomial; p itself is a Beta, also that of one of several categories."""
    coin = build("bernoulli", field="y", prior={"alpha": 2.5, "beta": 0.5}).posterior(np.array([7.0, 4.0]))
    found = coin.predict(np.empty((2, 0)), 0.9)
    np.testing.assert_allclose(found["probability"], [stats.betabinom(1, 9.5, 4.5).pmf(1)] * 2, rtol=1e-12)
    np.testing.assert_allclose([found["lower"][1], found["upper"][1]], stats.beta(9.5, 4.5).interval(0.9), rtol=1e-9)
    die = build("categorical", field="c", categories=["a", "b", "c"]).posterior(np.array([2.0, 0.0, 5.0]))
    found = die.predict(np.empty((2, 0)), 0.9)
    np.testing.assert_allclose(found["probability"], [[0.3, 0.1, 0.6]] * 2, rtol=1e-12)
    for k, c in enumerate([3, 1, 6]):
        ends = stats.beta(c, 10 - c).interval(0.9)
        np.testing.assert_allclose([found["lower"][0, k], found["upper"][0, k]], ends, rtol=1e-9)


@pytest.mark.parametrize("name", ["logistic", "diagonal-logistic", "probit", "skewed-probit"])
def test_the_probability_of_a_one_is_the_integral_over_the_weights(name: str) -> None:
    example = example_of(name)
    posterior, rows = learned(example, n=12), inputs_of(example, 5)
    found = posterior.predict(rows, 0.8)
    z = np.column_stack([np.ones(5), rows])
    mean = z @ posterior.weights.mean
    sd = np.sqrt(np.einsum("ij,jk,ik->i", z, posterior.moments()["weights"].cov, z))
    f = special.expit if "logistic" in name else special.ndtr
    for i in range(5):
        density = stats.norm(mean[i], sd[i]).pdf
        exact, _ = integrate.quad(lambda a, p=density: f(a) * p(a), mean[i] - 12 * sd[i], mean[i] + 12 * sd[i])
        assert found["probability"][i] == pytest.approx(exact, rel=1e-6)
        ends = f(stats.norm(mean[i], sd[i]).ppf([0.1, 0.9]))
        np.testing.assert_allclose([found["lower"][i], found["upper"][i]], ends, rtol=1e-9)


@pytest.mark.parametrize("name", ["logistic", "probit"])
def test_the_interval_of_a_probability_holds_its_part_of_the_draws(name: str) -> None:
    example, n = example_of(name), 40_000
    posterior, rows = learned(example, n=30), inputs_of(example, 4)
    draws = posterior.sample(np.random.default_rng(5), n)["weights"]
    f = special.expit if name == "logistic" else special.ndtr
    p = f(np.column_stack([np.ones(4), rows]) @ draws.T)
    found = posterior.predict(rows, 0.9)
    inside = ((p >= found["lower"][:, None]) & (p <= found["upper"][:, None])).mean(axis=1)
    assert (np.abs(inside - 0.9) <= ROOM * math.sqrt(0.9 * 0.1 / n)).all()
    assert (np.abs(p.mean(axis=1) - found["probability"]) <= ROOM * p.std(axis=1) / math.sqrt(n)).all()


def test_a_row_is_of_a_component_as_draws_of_the_mixture_say() -> None:
    """E[weight N(x)] of each component, of their sum; what learning takes for it is another number."""
    example, n = next(each for each in LATENT_EXAMPLES if each.kind == "gaussian_mixture"), 20_000
    posterior, rows = learned(example, n=25), inputs_of(example, 6)
    draws = posterior.sample(np.random.default_rng(6), n)
    found = posterior.predict(rows, 0.95)["responsibility"]
    np.testing.assert_allclose(found.sum(axis=1), 1)
    for i, x in enumerate(rows):
        away = x - draws["means"]
        squares = np.einsum("nki,nki->nk", away, np.linalg.solve(draws["covs"], away[..., None])[..., 0])
        joint = draws["weights"] * np.exp(-0.5 * squares) / np.sqrt(np.linalg.det(draws["covs"]))
        total = joint.sum(axis=1)
        for k in range(joint.shape[1]):
            # the ratio of two means: its error is that of joint - found * total
            errors = (joint[:, k] - found[i, k] * total) / total.mean()
            # what is nearly impossible is so by few draws, whose deviation is not known
            assert abs(errors.mean()) <= ROOM * errors.std() / math.sqrt(n) + 1e-6
    assert np.abs(posterior.responsibilities(rows).T - found).max() > 1e-3


@pytest.mark.parametrize("name", ["line", "skewed-line", "exposed", "count", "cloud"])
def test_the_interval_holds_its_part_of_new_events(name: str) -> None:
    """Parameters from the posterior, events from the parameters: the noise is in the interval, and nothing else."""
    example, n = example_of(name), 40_000
    model: Any = model_of(example)
    posterior, rows, rng = learned(example, n=12), inputs_of(example, 3), np.random.default_rng(7)
    draws, found = posterior.sample(rng, n), posterior.predict(rows, 0.9)
    for i, row in enumerate(rows):
        if example.kind == "linear_regression":
            noise = np.sqrt(draws["noise_variance"]) * rng.normal(size=n)
            new = draws["weights"] @ np.append([1.0] * model.intercept, row) + noise
        elif example.kind == "poisson":
            new = rng.poisson(draws["rate"] * (row[0] if len(row) else 1.0)).astype(float)
        else:
            new = draws["mean"][:, 0] + np.sqrt(draws["cov"][:, 0, 0]) * rng.normal(size=n)
        mean, sd, lower, upper = (np.atleast_1d(values[i])[0] for values in found.values())
        assert abs(new.mean() - mean) <= ROOM * new.std() / math.sqrt(n)
        squares = (new - mean) ** 2
        assert abs(squares.mean() - sd**2) <= ROOM * squares.std() / math.sqrt(n)
        inside, room = ((new >= lower) & (new <= upper)).mean(), ROOM * math.sqrt(0.9 * 0.1 / n)
        if example.kind == "poisson":  # for whole numbers it holds 0.9 at least, and on each side no more than it must
            assert inside >= 0.9 - room
            assert ((new > lower) & (new <= upper)).mean() <= 0.95 + room
            assert (new >= upper).mean() >= 0.05 - room
            assert (new <= lower).mean() >= 0.05 - room
        else:
            assert abs(inside - 0.9) <= room
