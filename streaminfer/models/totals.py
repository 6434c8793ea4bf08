"""Statistics that are plain totals: counts and sums that cannot be negative."""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.models.model import DomainError, Flags, Groups, Matrix, Vector

LARGEST_TOTAL: Final = 1e200
"""Beyond this products of totals would leave float64."""


def scale(statistics: Vector, weight: float | Vector) -> Vector:
    """Statistics (..., size) times a weight (...,)."""
    return statistics * (weight[..., None] if isinstance(weight, np.ndarray) else weight)


def by_group(terms: list[Vector], groups: Groups, k: int, weights: Vector | None) -> Matrix:
    """The sums (k, len(terms)) of each group; terms are (n,) each."""
    weighted = terms if weights is None else [term * weights for term in terms]
    return np.stack([np.bincount(groups, term, minlength=k) for term in weighted], axis=1)


def checked(statistics: Vector, size: int, totals: int) -> list[float]:
    """The statistics as numbers; the first `totals` of them must not be negative. Raises DomainError."""
    if statistics.shape != (size,):
        raise DomainError(f"statistics have shape {statistics.shape}, not ({size},)")
    values: list[float] = statistics.tolist()
    for i, value in enumerate(values):
        if not _smallest(i, totals) <= value <= LARGEST_TOTAL:
            raise DomainError(f"statistic {i} is {value:g}, which no events give")
    return values


def proper(statistics: Matrix, size: int, totals: int) -> Flags:
    """The rows (k, size) that `checked` takes."""
    if statistics.shape[1:] != (size,):
        raise DomainError(f"rows of statistics have shape {statistics.shape[1:]}, not ({size},)")
    smallest = np.array([_smallest(i, totals) for i in range(size)])
    return np.asarray(((smallest <= statistics) & (statistics <= LARGEST_TOTAL)).all(axis=1))


def require(proper: Flags) -> None:
    """Raises DomainError unless every row is proper."""
    if not proper.all():
        raise DomainError(f"row {int(proper.argmin())} of the statistics gives no posterior")


def _smallest(i: int, totals: int) -> float:
    return 0.0 if i < totals else -LARGEST_TOTAL
