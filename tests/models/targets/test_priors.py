"""Priors on the unconstrained scale: scipy's densities of the parameters times the Jacobian by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.models.examples import Example, model_of
from tests.models.targets.cases import ALL, case

Parameters = dict[str, np.ndarray]


def _weights(p: Parameters, model: Any) -> float:
    return float(stats.norm.logpdf(p["weights"], model.weights_mean, 1 / np.sqrt(model.weights_precision)).sum())


def _inverse_gamma(p: Parameters, model: Any) -> float:
    variance = p["noise_variance"]
    sd = np.sqrt(variance / np.array(model.weights_precision))
    weights = stats.norm.logpdf(p["weights"], model.weights_mean, sd).sum()
    return float(weights + stats.invgamma.logpdf(variance, model.shape, scale=model.rate))


def _inverse_wishart(mean: np.ndarray, cov: np.ndarray, model: Any) -> float:
    located = stats.multivariate_normal.logpdf(mean, model.mean, cov / model.kappa)
    return float(located + stats.invwishart.logpdf(cov, model.dof, np.diag(model.scale_diagonal)))


def _mixture(p: Parameters, model: Any) -> float:
    each = [_inverse_wishart(m, c, model) for m, c in zip(p["means"], p["covs"], strict=True)]
    return float(stats.dirichlet.logpdf(p["weights"] / p["weights"].sum(), model.concentration) + sum(each))


PRIORS: dict[str, Callable[[Parameters, Any], float]] = {
    "bernoulli": lambda p, model: float(stats.beta.logpdf(p["p"], model.alpha, model.beta)),
    "categorical": lambda p, model: float(stats.dirichlet.logpdf(p["p"] / p["p"].sum(), model.concentration)),
    "poisson": lambda p, model: float(stats.gamma.logpdf(p["rate"], model.shape, scale=1 / model.rate)),
    "gaussian": lambda p, model: _inverse_wishart(p["mean"], p["cov"], model),
    "linear_regression": _inverse_gamma,
    "logistic_regression": _weights,
    "probit_regression": _weights,
    "gaussian_mixture": _mixture,
}


def _free(parameters: Parameters, kind: str) -> np.ndarray:
    """The numbers of parameters that may differ by themselves: no last probability, half of a covariance."""
    found = []
    for name, value in parameters.items():
        if kind in {"categorical", "gaussian_mixture"} and name in {"p", "weights"}:
            found.append(value[:, :-1])
        elif name in {"cov", "covs"}:
            i, j = np.tril_indices(value.shape[-1])
            found.append(value[..., i, j].reshape(len(value), -1))
        else:
            found.append(value.reshape(len(value), -1))
    return np.hstack(found)


@pytest.mark.parametrize("example", ALL, ids=[example.name for example in ALL])
def test_priors_are_those_of_scipy_with_the_jacobian(example: Example) -> None:
    target, _, theta = case(example, n=6)
    parameters = target.constrain(theta)
    for k, at in enumerate(theta):
        steps = 1e-5 * np.eye(len(at))
        ahead, behind = (_free(target.constrain(at + sign * steps), example.kind) for sign in (1, -1))
        _, log_jacobian = np.linalg.slogdet((ahead - behind) / 2e-5)
        one = {name: value[k] for name, value in parameters.items()}
        expected = PRIORS[example.kind](one, model_of(example)) + log_jacobian
        assert target.log_prior(theta)[k] == pytest.approx(expected, rel=1e-7, abs=1e-6)
