"""Models with events drawn for them, for the checks that all models share; a new model needs a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streaminfer.models import MODELS
from streaminfer.models.model import Model
from streaminfer.spec.own_models import own

MIX = np.array([[1.0, 0.3], [-0.4, 0.8]])


class Example(NamedTuple):
    """A name, the kind, its options as a spec gives them, and (rng, n) -> events."""

    name: str
    kind: str
    options: Mapping[str, Any]
    events: Callable[[np.random.Generator, int], np.ndarray]


def build(kind: str, **options: Any) -> Any:
    """The model of checked options."""
    problems: list[Any] = []
    model = own.found(kind) if own.is_own(kind) else MODELS[kind]
    checked = model.options.check(options, "", problems)
    assert not problems, problems
    return model.build(checked)


def model_of(example: Example) -> Model:
    return build(example.kind, **example.options)


def _coins(rng: np.random.Generator, n: int) -> np.ndarray:
    return (rng.random((n, 1)) < 0.3).astype(np.float64)


def _dice(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.choice(3, size=(n, 1), p=[0.2, 0.5, 0.3]).astype(np.float64)


def _counts(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.poisson(2.5, (n, 1)).astype(np.float64)


def _exposed(rng: np.random.Generator, n: int) -> np.ndarray:
    exposure = rng.uniform(0.2, 4, n)
    return np.column_stack([rng.poisson(1.7 * exposure), exposure])


def _cloud(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=(n, 2)) @ MIX + [3.0, -20.0]


def _line(rng: np.random.Generator, n: int) -> np.ndarray:
    features = rng.normal(size=(n, 2)) @ MIX + [2.0, 5.0]
    return np.column_stack([features, 1.5 + features @ [-2.0, 0.25] + 0.7 * rng.normal(size=n)])


_REGRESSION = {"features": ["a", "b"], "target": "y"}
EXAMPLES = [
    Example("coin", "bernoulli", {"field": "y"}, _coins),
    Example("skewed-coin", "bernoulli", {"field": "y", "prior": {"alpha": 2.5, "beta": 0.5}}, _coins),
    Example("die", "categorical", {"field": "c", "categories": ["a", "b", "c"]}, _dice),
    Example(
        "skewed-die",
        "categorical",
        {"field": "c", "categories": ["a", "b", "c"], "prior": {"concentration": [0.5, 1.5, 3]}},
        _dice,
    ),
    Example("count", "poisson", {"field": "k"}, _counts),
    Example("exposed", "poisson", {"field": "k", "exposure": "e", "prior": {"shape": 3.0, "rate": 0.25}}, _exposed),
    Example("cloud", "gaussian", {"fields": ["u", "v"]}, _cloud),
    Example(
        "skewed-cloud",
        "gaussian",
        {"fields": ["u", "v"], "prior": {"mean": [1, -2], "kappa": 0.5, "dof": 6.5, "scale": [2, 0.5]}},
        _cloud,
    ),
    Example("line", "linear_regression", _REGRESSION, _line),
    Example(
        "skewed-line",
        "linear_regression",
        {
            **_REGRESSION,
            "prior": {
                "mean": [1, -1, 0.5],
                "precision": [0.3, 2],
                "intercept_precision": 0.2,
                "shape": 3,
                "rate": 1.5,
            },
        },
        _line,
    ),
    Example("line-through-zero", "linear_regression", {**_REGRESSION, "intercept": False}, _line),
]
