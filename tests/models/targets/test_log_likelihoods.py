"""Log likelihoods of events beside scipy's densities, at the parameters that a place stands for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from tests.models.examples import EXAMPLES, Example
from tests.models.latent_examples import LATENT_EXAMPLES
from tests.models.targets.cases import ALL, case

NAMED = {example.name: example for example in (*EXAMPLES, *LATENT_EXAMPLES)}
Parameters = dict[str, np.ndarray]
Density = Callable[[Parameters, np.ndarray, Example], np.ndarray]


def _bernoulli(p: Parameters, events: np.ndarray, _: Example) -> np.ndarray:
    return stats.bernoulli.logpmf(events[:, 0], p["p"])


def _categorical(p: Parameters, events: np.ndarray, _: Example) -> np.ndarray:
    return np.log(p["p"][events[:, 0].astype(int)])


def _poisson(p: Parameters, events: np.ndarray, _: Example) -> np.ndarray:
    exposure = events[:, 1] if events.shape[1] > 1 else 1.0
    return stats.poisson.logpmf(events[:, 0], exposure * p["rate"])


def _gaussian(p: Parameters, events: np.ndarray, _: Example) -> np.ndarray:
    return stats.multivariate_normal.logpdf(events, p["mean"], p["cov"])


def _design(events: np.ndarray, example: Example) -> np.ndarray:
    ones = np.ones((len(events), 1 if example.options.get("intercept", True) else 0))
    return np.hstack([ones, events[:, :-1]])


def _linear(p: Parameters, events: np.ndarray, example: Example) -> np.ndarray:
    return stats.norm.logpdf(events[:, -1], _design(events, example) @ p["weights"], np.sqrt(p["noise_variance"]))


def _logistic(p: Parameters, events: np.ndarray, example: Example) -> np.ndarray:
    return np.log(np.where(events[:, -1] == 1, *_both(1 / (1 + np.exp(-_design(events, example) @ p["weights"])))))


def _probit(p: Parameters, events: np.ndarray, example: Example) -> np.ndarray:
    return np.log(np.where(events[:, -1] == 1, *_both(stats.norm.cdf(_design(events, example) @ p["weights"]))))


def _both(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return p, 1 - p


def _mixture(p: Parameters, events: np.ndarray, _: Example) -> np.ndarray:
    each = [
        w * stats.multivariate_normal.pdf(events, m, c)
        for w, m, c in zip(p["weights"], p["means"], p["covs"], strict=True)
    ]
    return np.log(np.sum(each, axis=0))


DENSITIES: dict[str, Density] = {
    "bernoulli": _bernoulli,
    "categorical": _categorical,
    "poisson": _poisson,
    "gaussian": _gaussian,
    "linear_regression": _linear,
    "logistic_regression": _logistic,
    "probit_regression": _probit,
    "gaussian_mixture": _mixture,
}


@pytest.mark.parametrize("example", ALL, ids=[example.name for example in ALL])
def test_log_likelihoods_are_those_of_scipy(example: Example) -> None:
    target, _, theta = case(example)
    events = example.events(np.random.default_rng(6), 30)
    parameters = target.constrain(theta)
    found = target.log_likelihood(theta, target.rows(events))
    for k in range(len(theta)):
        one = {name: value[k] for name, value in parameters.items()}
        np.testing.assert_allclose(found[k], DENSITIES[example.kind](one, events, example), rtol=1e-8, atol=1e-8)
