"""Statistics that are plain totals: counts and sums that cannot be negative."""

from __future__ import annotations

from typing import Final

from streaminfer.models.model import DomainError, Vector

LARGEST_TOTAL: Final = 1e200
"""Beyond this products of totals would leave float64."""


def checked(statistics: Vector, size: int, totals: int) -> list[float]:
    """The statistics as numbers; the first `totals` of them must not be negative. Raises DomainError."""
    if statistics.shape != (size,):
        raise DomainError(f"statistics have shape {statistics.shape}, not ({size},)")
    values: list[float] = statistics.tolist()
    for i, value in enumerate(values):
        if not (0.0 if i < totals else -LARGEST_TOTAL) <= value <= LARGEST_TOTAL:
            raise DomainError(f"statistic {i} is {value:g}, which no events give")
    return values
