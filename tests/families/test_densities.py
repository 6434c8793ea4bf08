"""The constants that the shared checks are blind to: densities, entropies and divergences by other means.

Statistical checks leave 6 standard errors, a false alarm below 2e-9 each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from streaminfer.families import FAMILIES, mixture
from tests.families.examples import CASES, EXAMPLES, IDS

DRAWS = 20_000
SLOW = {"normal-inverse-wishart": 4000, "dirichlet-normal-inverse-wishart": 500}
"""Draws of the families whose densities are found draw by draw."""


def gaussian_log_density(p: Any, x: np.ndarray) -> np.ndarray:
    return stats.multivariate_normal(p.mean, np.linalg.inv(p.precision)).logpdf(x)


def nig_log_density(p: Any, draws: Any) -> np.ndarray:
    cov = np.linalg.inv(p.factor @ p.factor.T)
    standardised = (draws[0] - p.mean) / np.sqrt(draws[1])[:, None]
    normal = stats.multivariate_normal(np.zeros(p.mean.size), cov).logpdf(standardised)
    jacobian = 0.5 * p.mean.size * np.log(draws[1])
    return normal - jacobian + stats.invgamma(p.shape, scale=p.rate).logpdf(draws[1])


def niw_log_density(p: Any, draws: Any) -> np.ndarray:
    wishart = stats.invwishart(p.dof, p.scale).logpdf(np.moveaxis(draws[1], 0, -1))
    normal = [stats.multivariate_normal(p.mean, cov / p.kappa).logpdf(mu) for mu, cov in zip(*draws, strict=True)]
    return wishart + np.array(normal)


def mixture_log_density(p: Any, draws: Any) -> np.ndarray:
    """Factor by factor."""
    total = LOG_DENSITY["dirichlet"](p, draws.weights)
    for k in range(len(p.kappa)):
        total = total + niw_log_density(mixture.component(p, k), (draws.means[:, k], draws.covs[:, k]))
    return total


LOG_DENSITY: dict[str, Callable[[Any, Any], np.ndarray]] = {
    "beta": lambda p, x: stats.beta(p.alpha, p.beta).logpdf(x),
    "diagonal-gaussian": lambda p, x: stats.norm(p.mean, p.precision**-0.5).logpdf(x).sum(axis=1),
    "dirichlet": lambda p, x: stats.dirichlet(p.concentration).logpdf(x.T / x.T.sum(axis=0)),
    "dirichlet-normal-inverse-wishart": mixture_log_density,
    "gamma": lambda p, x: stats.gamma(p.shape, scale=1 / p.rate).logpdf(x),
    "gaussian": gaussian_log_density,
    "normal-inverse-gamma": nig_log_density,
    "normal-inverse-wishart": niw_log_density,
}
LOG_BASE: dict[str, Callable[[Any], np.ndarray]] = {
    "beta": lambda x: -np.log(x) - np.log1p(-x),
    "diagonal-gaussian": lambda x: np.zeros(len(x)),
    "dirichlet": lambda x: -np.log(x).sum(axis=1),
    "dirichlet-normal-inverse-wishart": lambda x: (
        -np.log(x.weights).sum(axis=1) - (x.means.shape[2] + 2) / 2 * np.linalg.slogdet(x.covs)[1].sum(axis=1)
    ),
    "gamma": lambda x: -np.log(x),
    "gaussian": lambda x: np.zeros(len(x)),
    "normal-inverse-gamma": lambda x: -(1 + x[0].shape[1] / 2) * np.log(x[1]),
    "normal-inverse-wishart": lambda x: -(x[0].shape[1] + 2) / 2 * np.linalg.slogdet(x[1])[1],
}
every_case = pytest.mark.parametrize(("name", "parameters"), CASES, ids=IDS)


@every_case
def test_base_measure_statistics_and_log_partition_make_the_density(name: str, parameters: Any) -> None:
    family = FAMILIES[name]
    draws = family.sample(parameters, np.random.default_rng(4), 50)
    eta = family.to_natural(parameters)
    ours = LOG_BASE[name](draws) + family.sufficient_statistics(draws) @ eta - family.log_partition(eta)
    np.testing.assert_allclose(ours, LOG_DENSITY[name](parameters, draws), rtol=1e-9, atol=1e-9)


@every_case
def test_entropy_is_the_mean_of_minus_the_log_density(name: str, parameters: Any) -> None:
    family = FAMILIES[name]
    draws = family.sample(parameters, np.random.default_rng(5), SLOW.get(name, DRAWS))
    log_density = LOG_DENSITY[name](parameters, draws)
    standard_error = log_density.std() / np.sqrt(len(log_density))
    # The uniform Beta has one value everywhere: rounding is all that is left.
    assert abs(family.entropy(parameters) + log_density.mean()) <= 6 * standard_error + 1e-12


def niw_entropy(p: Any) -> float:
    d = p.mean.size
    wishart = stats.wishart(p.dof, np.linalg.inv(p.scale)).entropy()
    # E log|S| from the Gammas that Bartlett's decomposition multiplies, not from digamma.
    logs = [stats.loggamma((p.dof - i) / 2).mean() + np.log(2) for i in range(d)]
    mean_log = np.linalg.slogdet(p.scale)[1] - sum(logs)
    # H[W^-1] = H[W] + (d + 1) E log|W^-1|; scipy's own invwishart.entropy disagrees with its logpdf for d > 1.
    inverse = wishart + (d + 1) * mean_log
    return float(inverse + 0.5 * (d * (1 + np.log(2 * np.pi)) - d * np.log(p.kappa) + mean_log))


@every_case
def test_entropy_equals_scipys(name: str, parameters: Any) -> None:
    p = parameters
    match name:
        case "beta":
            exact = stats.beta(p.alpha, p.beta).entropy()
        case "diagonal-gaussian":
            exact = stats.norm(p.mean, p.precision**-0.5).entropy().sum()
        case "dirichlet":
            exact = stats.dirichlet(p.concentration).entropy()
        case "gamma":
            exact = stats.gamma(p.shape, scale=1 / p.rate).entropy()
        case "gaussian":
            exact = stats.multivariate_normal(p.mean, np.linalg.inv(p.precision)).entropy()
        case "normal-inverse-gamma":
            variance = stats.invgamma(p.shape, scale=p.rate)
            unit = stats.multivariate_normal(p.mean, np.linalg.inv(p.factor @ p.factor.T)).entropy()
            mean_log, _ = integrate.quad(lambda u: np.log(u) * variance.pdf(u), 0, np.inf, epsabs=1e-12)
            exact = variance.entropy() + unit + 0.5 * p.mean.size * mean_log
        case "normal-inverse-wishart":
            exact = niw_entropy(p)
        case "dirichlet-normal-inverse-wishart":
            exact = stats.dirichlet(p.concentration).entropy()
            exact += sum(niw_entropy(mixture.component(p, k)) for k in range(len(p.kappa)))
        case _:
            raise AssertionError(f"no exact entropy for {name}")
    assert FAMILIES[name].entropy(p) == pytest.approx(float(exact), rel=1e-8)


@pytest.mark.parametrize("name", ["beta", "gamma"])
def test_kl_equals_quadrature(name: str) -> None:
    upper = 1.0 if name == "beta" else np.inf
    p, q = EXAMPLES[name][:2]

    def integrand(x: float) -> float:
        log_p, log_q = (float(LOG_DENSITY[name](r, np.array(x))) for r in (p, q))
        return np.exp(log_p) * (log_p - log_q)

    exact, _ = integrate.quad(integrand, 0, upper, epsabs=1e-11)
    assert FAMILIES[name].kl(p, q) == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("name", FAMILIES)
def test_kl_is_the_mean_log_ratio_of_the_densities(name: str) -> None:
    p, q = EXAMPLES[name][:2]
    draws = FAMILIES[name].sample(p, np.random.default_rng(6), SLOW.get(name, DRAWS))
    ratio = LOG_DENSITY[name](p, draws) - LOG_DENSITY[name](q, draws)
    assert abs(FAMILIES[name].kl(p, q) - ratio.mean()) <= 6 * ratio.std() / np.sqrt(len(ratio))


@pytest.mark.parametrize("name", ["gaussian", "normal-inverse-gamma", "normal-inverse-wishart"])
def test_only_the_symmetric_part_of_a_matrix_counts(name: str) -> None:
    family = FAMILIES[name]
    eta = family.to_natural(EXAMPLES[name][0])
    skewed = eta.copy()
    skewed[3 + 1] += 0.25
    skewed[3 + 3] -= 0.25
    assert family.log_partition(skewed) == pytest.approx(family.log_partition(eta), rel=1e-14)
    np.testing.assert_allclose(family.expected_statistics(skewed), family.expected_statistics(eta), rtol=1e-12)
