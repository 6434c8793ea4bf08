"""Mixtures of Gaussians with events drawn for them, for the checks that all approximate models share."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.examples import MIX, Example

CENTRES = np.array([[3.0, -20.0], [5.5, -18.5], [2.0, -17.0]])
SKEWED = {"concentration": [0.5, 2.0], "mean": [1, -2], "kappa": 0.5, "dof": 12.5, "scale": [2, 0.5]}


def _clouds(rng: np.random.Generator, n: int) -> np.ndarray:
    """Three clouds that overlap."""
    return CENTRES[rng.integers(0, 3, n)] + rng.normal(size=(n, 2)) @ MIX


def _line(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=(n, 1)) + np.where(rng.random((n, 1)) < 0.4, -2.0, 2.0)


def _options(components: int, fields: str, **prior: Any) -> dict[str, Any]:
    return {"fields": list(fields), "components": components, "prior": prior}


# With these dof components with few events or none, too, have the moments that the checks of draws need.
MIXTURE_EXAMPLES: list[Example] = [
    Example("clouds", "gaussian_mixture", _options(3, "uv", dof=12.0), _clouds),
    Example("skewed-clouds", "gaussian_mixture", _options(2, "uv", **SKEWED), _clouds),
    Example("two-humps", "gaussian_mixture", _options(2, "u", dof=12.0), _line),
    Example("too-many-components", "gaussian_mixture", _options(8, "uv", scale=20.0, dof=20.0), _clouds),
]
