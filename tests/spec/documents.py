"""Specs for tests: the smallest of every model, and one that says everything."""

from __future__ import annotations

from typing import Any

SMALLEST: dict[str, dict[str, Any]] = {
    "bernoulli": {"kind": "bernoulli", "field": "y"},
    "categorical": {"kind": "categorical", "field": "c", "categories": ["a", "b", "c"]},
    "poisson": {"kind": "poisson", "field": "k"},
    "gaussian": {"kind": "gaussian", "fields": ["u", "v"]},
    "linear_regression": {"kind": "linear_regression", "features": ["a", "b"], "target": "y"},
}

FULL: dict[str, dict[str, Any]] = {
    "bernoulli": {"kind": "bernoulli", "field": "y", "prior": {"alpha": 2, "beta": 0.5}},
    "categorical": {
        "kind": "categorical",
        "field": "c",
        "categories": ["a", "b", "c"],
        "prior": {"concentration": [1, 2, 0.5]},
    },
    "poisson": {"kind": "poisson", "field": "k", "exposure": "t", "prior": {"shape": 2, "rate": 3}},
    "gaussian": {
        "kind": "gaussian",
        "fields": ["u", "v"],
        "prior": {"mean": [1, -1], "kappa": 2, "dof": 7, "scale": [1, 2]},
    },
    "linear_regression": {
        "kind": "linear_regression",
        "features": ["a", "b"],
        "target": "y",
        "intercept": False,
        "prior": {"mean": [0, 1], "precision": [1, 2], "intercept_precision": 3, "shape": 4, "rate": 5},
    },
}

PRIORS: dict[str, dict[str, Any]] = {
    "bernoulli": {"alpha": 1.0, "beta": 1.0},
    "categorical": {"concentration": 1.0},
    "poisson": {"shape": 1.0, "rate": 1.0},
    "gaussian": {"mean": 0.0, "kappa": 0.01, "dof": 4.0, "scale": 1.0},
    "linear_regression": {
        "mean": 0.0,
        "precision": 1.0,
        "intercept_precision": 1e-6,
        "shape": 1.0,
        "rate": 1.0,
    },
}
"""The defaults that the documentation promises."""


def document(kind: str = "poisson", **sections: Any) -> dict[str, Any]:
    """The smallest spec of a model, with other sections in place of its own."""
    return {"name": "demo", "model": SMALLEST[kind], **sections}
