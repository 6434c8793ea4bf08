"""Small posteriors for the joint test of samplers, one for each model: informative priors and a way to draw events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streaminfer.models.targets import target_of
from tests.models.examples import build

Parameters = Mapping[str, np.ndarray]


class World(NamedTuple):
    """A target, and (rng, parameters of one draw) -> rows of its events."""

    kind: str
    target: Any
    simulate: Callable[[np.random.Generator, Parameters], np.ndarray]


EVENTS = 6
FEATURES = np.random.default_rng(0).normal(size=(EVENTS, 2))


def _coins(rng: np.random.Generator, p: Parameters) -> np.ndarray:
    return (rng.random((EVENTS, 1)) < p["p"]).astype(float)


def _dice(rng: np.random.Generator, p: Parameters) -> np.ndarray:
    edges = np.cumsum(p["p"][:-1])
    return np.searchsorted(edges, rng.random(EVENTS)).astype(float)[:, None]


def _counts(rng: np.random.Generator, p: Parameters) -> np.ndarray:
    return rng.poisson(p["rate"], (EVENTS, 1)).astype(float)


def _cloud(rng: np.random.Generator, p: Parameters) -> np.ndarray:
    return p["mean"] + rng.standard_normal((EVENTS, len(p["mean"]))) @ np.linalg.cholesky(p["cov"]).T


def _line(rng: np.random.Generator, p: Parameters) -> np.ndarray:
    noise = np.sqrt(p["noise_variance"]) * rng.standard_normal(EVENTS)
    return np.column_stack([FEATURES, FEATURES @ p["weights"] + noise])


def _logistic(rng: np.random.Generator, p: Parameters) -> np.ndarray:
    return np.column_stack([FEATURES, rng.logistic(size=EVENTS) < FEATURES @ p["weights"]]).astype(float)


def _probit(rng: np.random.Generator, p: Parameters) -> np.ndarray:
    return np.column_stack([FEATURES, rng.normal(size=EVENTS) < FEATURES @ p["weights"]]).astype(float)


def _humps(rng: np.random.Generator, p: Parameters) -> np.ndarray:
    of = (rng.random(EVENTS) > p["weights"][0]).astype(int)
    return p["means"][of] + np.sqrt(p["covs"][of][:, :, 0]) * rng.standard_normal((EVENTS, 1))


_BINARY = {"features": ["a", "b"], "target": "y", "intercept": False, "prior": {"mean": [0.3, -0.2]}}
_GAUSSIAN = {"kappa": 1.0, "dof": 9.0, "scale": 5.0}
_OPTIONS: dict[str, tuple[dict[str, Any], Callable[[np.random.Generator, Parameters], np.ndarray]]] = {
    "bernoulli": ({"field": "y", "prior": {"alpha": 3.0, "beta": 2.0}}, _coins),
    "categorical": ({"field": "c", "categories": ["a", "b", "c"], "prior": {"concentration": [2, 3, 4]}}, _dice),
    "poisson": ({"field": "k", "prior": {"shape": 4.0, "rate": 2.0}}, _counts),
    "gaussian": ({"fields": ["u", "v"], "prior": _GAUSSIAN}, _cloud),
    "linear_regression": (
        {"features": ["a", "b"], "target": "y", "intercept": False, "prior": {"shape": 4.0, "rate": 3.0}},
        _line,
    ),
    "logistic_regression": (_BINARY, _logistic),
    "probit_regression": (_BINARY, _probit),
    "gaussian_mixture": (
        {"fields": ["u"], "components": 2, "prior": {**_GAUSSIAN, "dof": 8.0, "concentration": [4, 2]}},
        _humps,
    ),
}


def world(kind: str) -> World:
    options, events = _OPTIONS[kind]
    target = target_of(build(kind, **options))

    def simulate(rng: np.random.Generator, parameters: Parameters) -> np.ndarray:
        return np.asarray(target.rows(events(rng, parameters)))

    return World(kind, target, simulate)


KINDS = tuple(_OPTIONS)
