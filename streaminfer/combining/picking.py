"""Which draws of a part are taken, if fewer or more are wanted than it has, or if they do not count the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streaminfer.combining.part import Part
from streaminfer.models.model import Matrix, Vector


def wanted(parts: Sequence[Part], n: int | None) -> int:
    """How many draws are made: n, or as many as the shortest part has."""
    return min(len(part.values) for part in parts) if n is None else n


def picked(part: Part, n: int, rng: np.random.Generator) -> Matrix:
    """n draws (n, d) that count the same; the draws themselves, not a copy, if they already are that.

    Fewer are taken evenly, as neighbours are alike.
    """
    total = len(part.values)
    if part.weights is not None:
        return np.asarray(part.values[rng.permutation(systematic(part.weights, n, rng))])
    if n == total:
        return part.values
    return np.asarray(part.values[np.arange(n) * total // n if n < total else rng.integers(0, total, n)])


def at_most(part: Part, n: int, rng: np.random.Generator) -> Matrix:
    """At most n draws that count the same."""
    return picked(part, min(n, len(part.values)), rng)


def systematic(weights: Vector, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """n indices in rising order, each as often as its share of the weights says, give or take one."""
    sums = np.cumsum(weights)
    places = (np.arange(n) + rng.random()) * (sums[-1] / n)
    return np.asarray(np.minimum(np.searchsorted(sums, places, side="right"), len(weights) - 1), dtype=np.intp)


def normalised(log_weights: Vector) -> Vector:
    """Weights that sum to 1."""
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def effective(weights: Vector) -> float:
    """How many draws of equal weight these are worth (Kish 1965): (sum w)^2 / sum w^2."""
    return float(weights.sum() ** 2 / (weights @ weights))
