"""Approximate models with events drawn for them, for the checks that all of them share; a new one needs a row here."""

from __future__ import annotations

import numpy as np

from tests.models.examples import Example, build, model_of
from tests.models.mixture.examples import MIXTURE_EXAMPLES

__all__ = ["LATENT_EXAMPLES", "Example", "build", "model_of"]


def _labelled(rng: np.random.Generator, n: int) -> np.ndarray:
    """Two correlated features and a label whose log odds are linear in them."""
    features = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.6], [-0.3, 0.8]]) + [0.5, -0.4]
    odds = 0.4 + features @ [1.2, -0.9]
    return np.column_stack([features, rng.random(n) < 1 / (1 + np.exp(-odds))]).astype(np.float64)


_CLASSIFIER = {"features": ["a", "b"], "target": "y"}
_SKEWED = {"mean": [0.5, -1.0, 0.3], "precision": [0.4, 2.5], "intercept_precision": 0.3}
LATENT_EXAMPLES: list[Example] = [
    Example("logistic", "logistic_regression", _CLASSIFIER, _labelled),
    Example("skewed-logistic", "logistic_regression", {**_CLASSIFIER, "intercept": True, "prior": _SKEWED}, _labelled),
    Example("logistic-through-zero", "logistic_regression", {**_CLASSIFIER, "intercept": False}, _labelled),
    Example("diagonal-logistic", "logistic_regression", {**_CLASSIFIER, "covariance": "diagonal"}, _labelled),
    Example(
        "skewed-diagonal-logistic",
        "logistic_regression",
        {**_CLASSIFIER, "covariance": "diagonal", "prior": _SKEWED},
        _labelled,
    ),
    Example("probit", "probit_regression", _CLASSIFIER, _labelled),
    Example("skewed-probit", "probit_regression", {**_CLASSIFIER, "sweeps": 3, "prior": _SKEWED}, _labelled),
    Example("diagonal-probit", "probit_regression", {**_CLASSIFIER, "covariance": "diagonal"}, _labelled),
    Example(
        "swept-diagonal-probit",
        "probit_regression",
        {**_CLASSIFIER, "covariance": "diagonal", "sweeps": 4, "prior": _SKEWED},
        _labelled,
    ),
    *MIXTURE_EXAMPLES,
]
