"""The parts of a chain's error against closed forms of linear chains: exact MH and SGLD on N(0, 1)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streaminfer.measuring.error_pictures import (
    ESTIMATORS,
    Estimator,
    errors,
    estimates,
    marginals,
    stationary_mean,
)

RUNS, DRAWS, START = 2000, 400, 5.0
AFTER = np.array([1, 3, 10, 50, 400])


def sgld(step: float, noise: float, seed: int = 1) -> np.ndarray:
    """x' = x - step/2 (x + noise) + N(0, step), gradient noise of variance `noise`: (runs, draws)."""
    rng, x = np.random.default_rng(seed), np.full(RUNS, START)
    found = np.empty((RUNS, DRAWS))
    for t in range(DRAWS):
        gradient = x + math.sqrt(noise) * rng.standard_normal(RUNS)
        x = x - 0.5 * step * gradient + math.sqrt(step) * rng.standard_normal(RUNS)
        found[:, t] = x
    return found


def mh(width: float, seed: int = 2) -> np.ndarray:
    rng, x = np.random.default_rng(seed), np.full(RUNS, START)
    found = np.empty((RUNS, DRAWS))
    for t in range(DRAWS):
        ahead = x + width * rng.standard_normal(RUNS)
        x = np.where(np.log(rng.random(RUNS)) < 0.5 * (x * x - ahead * ahead), ahead, x)
        found[:, t] = x
    return found


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_transient_bias_and_the_error_are_those_of_a_linear_chain(estimator: Estimator) -> None:
    """E x_t = a^t x_0; the covariance of x_s and x_t is a^(t-s) v (1 - a^(2s)), v the stationary variance."""
    step, noise = 0.2, 1.0
    a, v = 1 - step / 2, (1 + step * noise / 4) / (1 - step / 4)
    found = errors(sgld(step, noise), 0.0, AFTER, 64, estimator, 0.0)
    steps = np.arange(1, DRAWS + 1)
    cov = a ** np.abs(steps[:, None] - steps) * v * (1 - a ** (2 * np.minimum(steps[:, None], steps)))
    for i, t in enumerate(AFTER):
        which = {"all": slice(0, t), "last_half": slice(t // 2, t), "last_draw": slice(t - 1, t)}[estimator]
        n = which.stop - which.start
        assert abs(found.transient[i] - START * (a ** steps[which]).mean()) < 5.5 * found.transient_se[i]
        assert found.monte_carlo[i] == pytest.approx(
            math.sqrt(cov[which, which].sum()) / n, rel=5.5 / math.sqrt(2 * RUNS)
        )
        assert found.total[i] ** 2 == pytest.approx(
            found.transient[i] ** 2 + found.monte_carlo[i] ** 2 * (1 - 1 / RUNS), rel=1e-9
        )
    np.testing.assert_array_equal(found.compute, 64.0 * AFTER)
    assert found.curves.shape == (len(AFTER), 5)


def test_sgld_has_an_asymptotic_bias_and_mh_has_none() -> None:
    """Of x^2: stationary variance (1 + eps V/4) / (1 - eps/4) against 1."""
    squares = sgld(0.8, 4.0) ** 2
    mean, se = stationary_mean(squares)
    expected = (1 + 0.8) / (1 - 0.2)
    assert abs(mean - expected) < 5.5 * se
    found = errors(squares, 1.0, AFTER, 1, "last_half", mean)
    assert found.asymptotic == pytest.approx(mean - 1)
    assert found.total[-1] > 0.9 * abs(found.asymptotic)
    exact, exact_se = stationary_mean(mh(2.4) ** 2)
    assert abs(exact - 1) < 5.5 * exact_se


def test_the_last_half_forgets_the_start_sooner_and_the_mean_of_all_has_less_error() -> None:
    values = mh(2.4)
    every, half, last = (errors(values, 0.0, AFTER, 1, each, 0.0) for each in ESTIMATORS)
    assert abs(half.transient[-1]) < abs(every.transient[-1])
    assert every.monte_carlo[-1] < half.monte_carlo[-1] < last.monte_carlo[-1]
    slow = mh(0.8)
    every, half, _ = (errors(slow, 0.0, AFTER, 1, each, 0.0) for each in ESTIMATORS)
    assert half.total[-2] < 0.8 * every.total[-2]


@pytest.mark.parametrize("t", [1, 2, 3, 4, 7])
def test_the_last_half_begins_after_the_first_floor_of_half_the_draws(t: int) -> None:
    """Draws floor(t/2) + 1 to t; from floor(t/2) on, as often printed, is one more."""
    values = np.arange(1.0, 8.0)[None] ** 2
    found = estimates(values, np.array([t]), "last_half")[0, 0]
    assert found == pytest.approx(np.mean(values[0, t // 2 : t]))
    if t > 1:
        assert found != pytest.approx(np.mean(values[0, t // 2 - 1 : t]))


def test_marginals_come_to_those_of_the_target() -> None:
    target = np.random.default_rng(3).standard_normal(100_000)
    found = marginals(mh(2.4), np.array([1, 400]), target, [0.05, 0.5, 0.95])
    assert found.quantiles.shape == (2, 3)
    # The error of a quantile p is sqrt(p (1 - p) / n) over the density, 0.103 at 5%.
    assert (np.abs(found.quantiles[1] - found.target) < 5.5 * 0.218 / 0.103 / math.sqrt(RUNS)).all()
    assert found.quantiles[0, 1] > 3


def test_what_tells_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 runs"):
        errors(np.ones((1, 5)), 0.0, np.array([1]), 1, "all", 0.0)
    with pytest.raises(ValueError, match="after 1 to 5 draws"):
        estimates(np.ones((2, 5)), np.array([0, 6]), "all")
