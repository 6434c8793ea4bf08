"""Sums over rows block by block, in a fixed order: the same in every process, and never with a copy of all rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from streaminfer.models.model import Matrix, Vector

NUMBERS: Final = 1 << 18
"""Numbers in a block of rows: 2 MB."""


def slices(rows: Matrix, k: int = 1, numbers: int = NUMBERS) -> Iterator[slice]:
    """Where the blocks are: small enough for arrays over k vectors theta."""
    size = max(1, numbers // max(rows.shape[1], k))
    for begin in range(0, len(rows), size):
        yield slice(begin, begin + size)


def of(rows: Matrix, k: int = 1) -> Iterator[Matrix]:
    """The blocks."""
    return (rows[each] for each in slices(rows, k))


def weighted_gram(rows: Matrix, weights: Vector) -> Matrix:
    """The sum of weight x x' over rows x, (columns, columns)."""
    total = np.zeros((rows.shape[1],) * 2)
    for each in slices(rows):
        total += (weights[each, None] * rows[each]).T @ rows[each]
    return total
