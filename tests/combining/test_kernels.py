"""Products of kernel density estimates against all their components, and Weierstrass samplers against formulas."""

from __future__ import annotations

from itertools import product as every

import numpy as np
import pytest
from scipy import stats

from streaminfer.combining.methods import indices, weierstrass
from streaminfer.combining.part import Combined, Gaussian, Options, Refused
from streaminfer.combining.table import COMBINERS
from tests.combining.gaussians import exact, part, product

KERNELS = ["kde", "semiparametric"]


def enumerated(name: str, draws: list[np.ndarray], h: float) -> Gaussian:
    """Mean and covariance of the product by every combination of its components, with scipy's densities."""
    covs, means = [np.cov(x.T) for x in draws], [x.mean(axis=0) for x in draws]
    inner = [np.linalg.inv(h**2 * cov) for cov in covs]
    fits = [np.linalg.inv(cov) for cov in covs] if name == "semiparametric" else []
    v = np.linalg.inv(sum(inner) + sum(fits))
    logs, centres = [], []
    for picked in every(*(range(len(x)) for x in draws)):
        places = [x[i] for x, i in zip(draws, picked, strict=True)]
        m = v @ (
            sum(p @ c for p, c in zip(inner, places, strict=True))
            + sum(p @ u for p, u in zip(fits, means, strict=False))
        )
        # the integral of a product of Gaussians is that product at any point over the normalised Gaussian there
        log = -stats.multivariate_normal.logpdf(m, m, v)
        for c, cov, mean in zip(places, covs, means, strict=True):
            log += stats.multivariate_normal.logpdf(m, c, h**2 * cov)
            if fits:
                log += stats.multivariate_normal.logpdf(m, mean, cov) - stats.multivariate_normal.logpdf(c, mean, cov)
        logs.append(log)
        centres.append(m)
    w = np.exp(np.array(logs) - max(logs))
    w /= w.sum()
    mean = w @ np.array(centres)
    return Gaussian(mean, v + np.cov(np.array(centres).T, aweights=w, ddof=0))


def is_near(found: Combined, right: Gaussian, n: int, sigmas: float = 6.0) -> None:
    """Means and covariances of n independent terms, in standard errors of Gaussians (twice those for covariances)."""
    sds = np.sqrt(np.diag(right.cov))
    assert np.abs((found.mean - right.mean) / sds).max() < sigmas / np.sqrt(n)
    assert np.abs((found.cov - right.cov) / np.outer(sds, sds)).max() < 2 * sigmas * np.sqrt(2 / n)
    m = len(found.draws)
    assert np.abs((found.draws.mean(axis=0) - right.mean) / sds).max() < sigmas / np.sqrt(m)
    assert np.abs((np.cov(found.draws.T) - right.cov) / np.outer(sds, sds)).max() < 2 * sigmas * np.sqrt(2 / m)


@pytest.mark.parametrize("choice", ["pairs", "gibbs"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("j", [2, 3])
def test_products_of_kernels_are_those_of_all_components(name: str, choice: str, j: int) -> None:
    rng = np.random.default_rng(j)
    draws = [rng.standard_normal((8, 2)) * [1.0, 10.0] + 0.3 * i * np.array([1.0, -10.0]) for i in range(j)]
    options = Options(n=30_000, bandwidth=0.7, choice=choice, sweeps=60, components=30_000)
    found = COMBINERS[name]([part(x) for x in draws], rng, options)
    # in a tree, terms of the second level are of chosen ones: a little less than independent
    is_near(found, enumerated(name, draws, 0.7), 30_000, 6.0 if j == 2 else 9.0)


def test_wide_kernels_leave_the_gaussian_product() -> None:
    rng = np.random.default_rng(5)
    parts = [part(rng.standard_normal((300, 2)) + i) for i in range(3)]
    right = COMBINERS["normal"](parts, rng, Options())
    found = COMBINERS["semiparametric"](parts, rng, Options(n=20_000, bandwidth=50.0, components=300))
    is_near(found, Gaussian(right.mean, right.cov), 20_000)


@pytest.mark.parametrize("choice", ["pairs", "gibbs"])
@pytest.mark.parametrize("name", KERNELS)
def test_errors_fall_with_the_number_of_draws(name: str, choice: str) -> None:
    """Log gamma variables in one dimension: the product of two is another one."""
    shape, scale = 3.0, 1.0
    right = Gaussian(
        np.array([np.log(scale / 2) + stats.loggamma(2 * shape).mean()]), np.array([[stats.loggamma(2 * shape).var()]])
    )

    def error(t: int, seed: int) -> float:
        """exp(shape x - exp(x)) is the density of x = log of a gamma variable."""
        rng = np.random.default_rng(seed)
        parts = [part(np.log(rng.gamma(shape, scale, (t, 1)))) for _ in range(2)]
        found = COMBINERS[name](parts, rng, Options(n=4000, choice=choice, components=t))
        bias = (found.mean - right.mean)[0] ** 2 / right.cov[0, 0]
        return float(bias + (found.cov[0, 0] / right.cov[0, 0] - 1) ** 2)

    few, many = (np.mean([error(t, seed) for seed in range(12)]) for t in (30, 2000))
    assert many < few / 3


def test_the_bandwidth_is_annealed() -> None:
    course = indices.annealed(0.3, 40, 2)
    assert (course[0], course[-1]) == (1.0, pytest.approx(0.3))
    assert (np.diff(course) < 0).all()


UNEQUAL = [(0.0, 0.3), (1.0, 1.0), (-2.0, 4.0), (0.5, 2.0)]
"""Means and variances of subposteriors in each of two coordinates, of which the second is in units of 100."""
UNITS = np.array([1.0, 100.0])


def smoothed(h: float) -> tuple[Gaussian, np.ndarray, np.ndarray]:
    """p_j = 1 / (s_j^2 + h^2): mean sum mu_j p_j / sum p_j, variance 1 / sum p_j; and s_j^2, h^2 in plain units."""
    mu, s2 = np.array(UNEQUAL).T
    h2 = h**2 / np.mean(1 / s2)
    p = 1 / (s2 + h2)
    return Gaussian(UNITS * (mu @ p) / p.sum(), np.diag(UNITS**2 / p.sum())), s2, np.array(h2)


@pytest.mark.parametrize("name", ["weierstrass_rejection", "weierstrass_importance"])
def test_weierstrass_in_pairs_has_the_moments_of_smoothed_subposteriors(name: str) -> None:
    rng = np.random.default_rng(6)
    right, _, _ = smoothed(1.2)
    known = [Gaussian(m * UNITS, np.diag(v * UNITS**2)) for m, v in UNEQUAL]
    parts = [part(exact(each, 20_000, rng)) for each in known]
    found = COMBINERS[name](parts, rng, Options(n=20_000, bandwidth=1.2, components=20_000))
    # draws are chosen again on two levels, from 20,000 of each part
    is_near(found, right, 20_000 if name == "weierstrass_rejection" else found.notes["effective"] / 4, 9.0)


def test_weierstrass_refinement_has_the_moments_and_the_correlation_of_its_formula() -> None:
    """Exact conditional draws of xi; the lag-1 autocorrelation is the mean of s_j^2 / (s_j^2 + h^2)."""
    rng = np.random.default_rng(7)
    right, s2, h2 = smoothed(1.0)
    mu, n, variance = np.array(UNEQUAL)[:, 0], 20_000, h2 * UNITS**2

    def refine(j: int, theta: np.ndarray, xi: np.ndarray, v: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        own = s2[j] * UNITS**2
        pull = own / (own + v)
        return pull * theta + (1 - pull) * mu[j] * UNITS + np.sqrt(pull * v) * rng.standard_normal(theta.shape)

    start = right.mean + rng.standard_normal((n, 2)) @ np.sqrt(right.cov)
    path = list(weierstrass.rounds(start, 4, variance, refine, 1, 40, rng))
    last = path[-1]
    is_near(Combined(last, last.mean(axis=0), np.cov(last.T), ()), right, n)
    correlation = [np.corrcoef(path[-1][:, i], path[-2][:, i])[0, 1] for i in range(2)]
    np.testing.assert_allclose(correlation, np.mean(s2 / (s2 + h2)), atol=6 / np.sqrt(n))


def test_refinement_from_draws_finds_the_smoothed_product() -> None:
    rng = np.random.default_rng(8)
    known = [Gaussian(np.array([m]), np.array([[v]])) for m, v in UNEQUAL[1:]]
    parts = [part(exact(each, 4000, rng)) for each in known]
    found = COMBINERS["weierstrass"](parts, rng, Options(n=4000, bandwidth=1.0, components=4000, rounds=40))
    h2 = 1 / np.mean([1 / g.cov[0, 0] for g in known])
    right = product([Gaussian(g.mean, g.cov + h2) for g in known])
    assert abs(found.mean[0] - right.mean[0]) / np.sqrt(right.cov[0, 0]) < 0.15
    assert found.cov[0, 0] == pytest.approx(right.cov[0, 0], rel=0.2)
    assert 0 < found.notes["autocorrelation"] < 1


def test_bandwidths_that_are_not_given_accept_a_tenth() -> None:
    rng = np.random.default_rng(9)
    for d in (1, 10):
        parts = [part(rng.standard_normal((3000, d)) + 0.2 * i) for i in range(5)]
        found = COMBINERS["weierstrass_rejection"](parts, rng, Options(n=500))
        assert 0.02 < found.notes["acceptance"] < 0.3
    with pytest.raises(Refused, match="wider"):
        COMBINERS["weierstrass_rejection"](parts, rng, Options(n=500, bandwidth=0.05))


@pytest.mark.parametrize("name", [name for name in COMBINERS if name != "variational"])
def test_one_part_alone_is_what_it_is(name: str) -> None:
    rng = np.random.default_rng(10)
    values = rng.standard_normal((1000, 2)) + np.array([3.0, -4.0])
    found = COMBINERS[name]([part(values)], rng, Options(bandwidth=0.1))
    np.testing.assert_allclose(found.mean, values.mean(axis=0), atol=0.2)
    np.testing.assert_allclose(found.cov, np.cov(values.T), atol=0.3)
