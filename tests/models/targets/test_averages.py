"""Moments and quantiles of mixtures over draws, against plain sums and searches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special, stats

from streaminfer.models.targets import averages


@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 30.0])
def test_normals_against_their_distribution_function(level: float, spread: float) -> None:
    rng = np.random.default_rng(1)
    means, sds = 7 + spread * rng.standard_normal((5, 37)), rng.gamma(2, 1, (5, 37))
    found = averages.normals(means, sds, level)
    for i in range(5):
        mixture = stats.norm(means[i], sds[i])
        assert found["mean"][i] == pytest.approx(means[i].mean(), rel=1e-13)
        assert found["sd"][i] ** 2 == pytest.approx((sds[i] ** 2).mean() + means[i].var(), rel=1e-12)
        for name, p in (("lower", 0.5 * (1 - level)), ("upper", 0.5 * (1 + level))):
            exact = optimize.brentq(lambda x, p=p, m=mixture: m.cdf(x).mean() - p, -500, 500, xtol=1e-12)
            assert found[name][i] == pytest.approx(exact, abs=1e-8)


@pytest.mark.parametrize("shift", [0.0, 1e7])
def test_one_draw_is_its_own_normal(shift: float) -> None:
    found = averages.normals(np.array([[shift + 3.0]]), np.array([[2.0]]), 0.95)
    assert found["upper"][0] - shift == pytest.approx(3 + 2 * stats.norm.ppf(0.975), abs=1e-8)
    assert found["sd"][0] == pytest.approx(2.0)


@pytest.mark.parametrize("far", [1e3, 1e100, 1e-100])
def test_normals_that_are_far_apart_or_of_odd_sizes(far: float) -> None:
    """A gap without probability, in which Newton's method would be lost: quantiles are in the outer parts."""
    found = averages.normals(far * np.array([[-1.0, 1.0, 1.0, 1.0]]), 1e-3 * far * np.ones((1, 4)), 0.5)
    mean, sd, lower, upper = (values[0] / far for values in found.values())
    assert mean == pytest.approx(0.5)
    assert sd == pytest.approx(np.sqrt(0.75), rel=1e-5)
    assert upper == pytest.approx(1 + 1e-3 * stats.norm.ppf(2 / 3), rel=1e-9)
    assert -1 < lower < 1
    flat = averages.normals(np.zeros((2, 3)), np.zeros((2, 3)), 0.9)
    assert all(np.isfinite(values).all() for values in flat.values())


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("size", [1e-3, 0.7, 30.0, 1e5])
def test_counts_against_sums_of_probabilities(level: float, size: float) -> None:
    rng = np.random.default_rng(2)
    rates, exposures = rng.gamma(3, size / 3, 50), np.array([0.1, 1.0, 2.5, 1.0])
    found = averages.poissons(exposures, rates, level)
    for i, exposure in enumerate(exposures):
        mixture, p = stats.poisson(exposure * rates), 0.5 * (1 + level)
        assert found["mean"][i] == pytest.approx(mixture.mean().mean(), rel=1e-12)
        assert found["sd"][i] ** 2 == pytest.approx(mixture.var().mean() + mixture.mean().var(), rel=1e-10)
        for k, tail in ((found["upper"][i], p), (found["lower"][i], 1 - p)):
            assert k == np.floor(k) >= 0
            assert mixture.cdf(k).mean() >= tail
            assert k == 0 or mixture.cdf(k - 1).mean() < tail


def test_large_counts_are_as_good_as_continuous() -> None:
    rng = np.random.default_rng(3)
    rates = rng.gamma(3, 1, 50)
    for exposure in (9e9, 1e11):
        found = averages.poissons(np.array([exposure]), rates, 0.9)
        tail = special.ndtr((found["upper"][0] - exposure * rates) / np.sqrt(exposure * rates)).mean()
        assert tail == pytest.approx(0.95, abs=1e-3)
    huge = averages.poissons(np.array([1e100]), rates, 0.9)
    assert huge["upper"][0] == pytest.approx(1e100 * np.sort(rates)[47], rel=1e-9)
    assert averages.poissons(np.array([1.0]), np.zeros(4), 0.9)["upper"][0] == 0


def test_logs_of_means_where_nothing_is_left_of_the_numbers() -> None:
    logs = np.array([[-1e5, -np.inf, 3.0, -1e300], [-1e5 - 1, -np.inf, -np.inf, -np.inf]])
    found = averages.log_mean_exp(logs)
    np.testing.assert_allclose(found[[0, 2, 3]], special.logsumexp(logs, axis=0)[[0, 2, 3]] - np.log(2), rtol=1e-14)
    assert found[1] == -np.inf
