"""The Gaussian model against 50-digit batch posteriors, scipy and quadrature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from streaminfer.models.model import DomainError
from streaminfer.models.options import OptionsError
from tests.models import exact
from tests.models.examples import build

FIELDS = ["u", "v", "w"]
PRIORS: list[dict[str, Any]] = [{}, {"mean": [1, -2, 3], "kappa": 5.0, "dof": 3.5, "scale": [2, 0.5, 1]}]
CENTRES = [(1e7, 1e7, 1e7), (1.0, 1e7, -1e7), (0.0, 0.0, 0.0)]


def draw(centre: tuple[float, ...]) -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.normal(size=(120, 3)) @ np.array([[1, 0.3, -0.2], [0, 1, 0.5], [0.4, 0, 1]]) + centre


def in_minibatches(model: Any, events: np.ndarray) -> np.ndarray:
    statistics = model.empty()
    for part in np.array_split(events, 13):
        statistics = model.merge(statistics, model.statistics(part))
    return statistics


def assert_exact(model: Any, statistics: np.ndarray, events: np.ndarray) -> None:
    """Each number to 1e-9 of itself."""
    posterior, oracle = model.posterior(statistics), exact.gaussian(model, events)
    moments = posterior.moments()
    np.testing.assert_allclose(moments["mean"].mean, oracle["mean"], rtol=1e-9)
    np.testing.assert_allclose(moments["mean"].sd, oracle["sd"], rtol=1e-9)
    np.testing.assert_allclose(moments["cov"].mean, oracle["cov"], rtol=1e-9)
    np.testing.assert_allclose(posterior.natural, oracle["natural"], rtol=1e-9)
    assert posterior.log_evidence() == pytest.approx(float(oracle["log_evidence"]), rel=1e-9)


@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize("prior", [*PRIORS, {"mean": 1e7, "kappa": 1}])
def test_equals_the_exact_posterior(centre: tuple[float, ...], prior: dict[str, Any]) -> None:
    model, events = build("gaussian", fields=FIELDS, prior=prior), draw(centre)
    assert_exact(model, in_minibatches(model, events), events)


def test_raw_sums_of_squares_are_found() -> None:
    """The mutant: the same statistics, by X'X - n mean mean'. A prior mean at the data lets the digits be seen."""
    model, events = build("gaussian", fields=FIELDS, prior={"mean": 1e7}), draw(CENTRES[0])
    statistics = in_minibatches(model, events)
    mean = events.mean(axis=0)
    raw = events.T @ events - len(events) * np.outer(mean, mean)
    statistics[-raw.size :] = raw.ravel()
    with pytest.raises((AssertionError, DomainError)):
        assert_exact(model, statistics, events)


@pytest.mark.parametrize("prior", PRIORS)
def test_the_predictive_is_the_multivariate_t(prior: dict[str, Any]) -> None:
    model = build("gaussian", fields=FIELDS, prior=prior)
    posterior = model.posterior(model.statistics(draw((1.0, 2.0, 3.0))))
    mean, kappa, dof, scale = posterior.parameters
    nu = dof - 3 + 1
    t = stats.multivariate_t(mean, scale * (kappa + 1) / (kappa * nu), nu)
    new = np.random.default_rng(2).normal(size=(9, 3)) * 3
    np.testing.assert_allclose(posterior.log_predictive(new), t.logpdf(new), rtol=1e-10)


def test_the_evidence_of_one_field_equals_quadrature() -> None:
    model = build("gaussian", fields=["u"], prior={"mean": 0.3, "kappa": 0.8, "dof": 5, "scale": 2.4})
    x = np.array([0.5, -1.0, 2.0])
    mu, logs = np.linspace(-12, 12, 241)[None, :], np.linspace(-6, 9, 241)[:, None]
    variance = np.exp(logs)
    prior = stats.norm(0.3, np.sqrt(variance / 0.8)).pdf(mu) * stats.invgamma(2.5, scale=1.2).pdf(variance) * variance
    likelihood = np.prod([stats.norm(mu, np.sqrt(variance)).pdf(value) for value in x], axis=0)
    total = integrate.trapezoid(integrate.trapezoid(prior * likelihood, mu[0], axis=1), logs[:, 0])
    evidence = model.posterior(model.statistics(x[:, None])).log_evidence()
    assert evidence == pytest.approx(np.log(total), rel=1e-6)


def test_the_sd_of_cov_equals_scipys() -> None:
    model = build("gaussian", fields=FIELDS)
    posterior = model.posterior(model.statistics(draw((0.0, 0.0, 0.0))))
    variances = stats.invwishart(posterior.parameters.dof, posterior.parameters.scale).var()
    np.testing.assert_allclose(posterior.moments()["cov"].sd, np.sqrt(variances), rtol=1e-10)


def test_moments_that_do_not_exist_are_nan() -> None:
    model = build("gaussian", fields=["u", "v"], prior={"dof": 1.5})
    events = np.random.default_rng(3).normal(size=(5, 2))
    nothing = model.posterior(model.empty()).moments()
    assert np.isnan(nothing["mean"].mean).all()
    one = model.posterior(model.statistics(events[:1])).moments()
    assert np.isfinite(one["mean"].mean).all()
    assert np.isnan(one["mean"].cov).all()
    assert np.isnan(one["cov"].mean).all()
    two = model.posterior(model.statistics(events[:2])).moments()
    assert np.isfinite(two["mean"].sd).all()
    assert np.isfinite(two["cov"].mean).all()
    assert np.isnan(two["cov"].sd).all()
    five = model.posterior(model.statistics(events)).moments()
    assert np.isfinite(five["cov"].sd).all()
    assert five["cov"].cov is None


def test_sampling_keeps_its_digits_far_from_the_prior_mean() -> None:
    """Where scale is ill-conditioned beyond a Cholesky factorisation, its root still gives positive definite draws."""
    model = build("gaussian", fields=FIELDS)
    posterior = model.posterior(in_minibatches(model, draw((1e9, 1e9, 1e9))))
    draws = posterior.sample(np.random.default_rng(4), 100)
    assert np.isfinite(draws["mean"]).all()
    assert (draws["cov"].diagonal(axis1=1, axis2=2) > 0).all()


@pytest.mark.parametrize(
    ("prior", "field"), [({"dof": 2.0}, "prior.dof"), ({"mean": [1, 2]}, "prior.mean"), ({"scale": [1]}, "prior.scale")]
)
def test_options_that_do_not_fit_together(prior: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionsError) as error:
        build("gaussian", fields=FIELDS, prior=prior)
    assert error.value.problem.field == field


def test_defaults() -> None:
    model = build("gaussian", fields=FIELDS)
    assert (model.mean, model.kappa, model.dof, model.scale_diagonal) == ((0.0,) * 3, 0.01, 5.0, (1.0,) * 3)
