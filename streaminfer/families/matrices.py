"""Symmetric matrices inside flat vectors, and what their Cholesky factors give.

A symmetric d x d matrix stands in a vector as all of its d*d entries, row by row. When such a vector is read only the
symmetric part (M + M') / 2 counts. So a derivative by one entry is that of the trace pairing <G, M> = sum G_ij M_ij,
and the gradient has the full symmetric G in the same layout.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import dtrsm

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
_SINGULAR: Final = 1e-14
"""A correlation matrix with a smaller pivot has a direction in which draws differ by rounding only."""


def dimension(size: int, scalars: int) -> int:
    """The d of a vector of d + d*d + `scalars` numbers, or 0 if no d >= 1 gives that size."""
    d = (math.isqrt(4 * max(size - scalars, 0) + 1) - 1) // 2
    return d if d >= 1 and d + d * d + scalars == size else 0


def symmetric_part(entries: Vector, d: int) -> Matrix:
    """(M + M') / 2 of the d x d matrix M with these entries, row by row."""
    matrix = entries.reshape(d, d)
    return 0.5 * matrix + 0.5 * matrix.T


def cholesky(matrix: Matrix) -> Matrix:
    """The lower L with L L' = `matrix`; raises LinAlgError if there is none."""
    return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)


def is_positive_definite(matrix: Matrix) -> bool:
    """Whether a finite symmetric matrix has a Cholesky factor."""
    try:
        factor = cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return bool(np.isfinite(factor).all())


def is_singular(cov: Matrix) -> bool:
    """Whether a covariance has a direction that is not told from rounding, whatever the units of its coordinates."""
    units = np.sqrt(np.maximum(np.diag(cov), 0.0))
    if not (units > 0).all():
        return True
    try:
        factor = cholesky(cov / np.outer(units, units))
    except np.linalg.LinAlgError:
        return True
    return not np.diag(factor).min() ** 2 > _SINGULAR


def solve_lower(factor: Matrix, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """L^-1 b for a lower triangular L; b is (d,) or (d, k)."""
    return _solve(factor, right, transposed=0)


def solve_lower_transposed(factor: Matrix, right: NDArray[np.float64]) -> NDArray[np.float64]:
    """L'^-1 b for a lower triangular L; b is (d,) or (d, k)."""
    return _solve(factor, right, transposed=1)


def inverse(factor: Matrix) -> Matrix:
    """(L L')^-1 = L^-1' L^-1, exactly symmetric."""
    half = solve_lower(factor, np.eye(len(factor)))
    return half.T @ half


def log_determinant(factor: Matrix) -> float:
    """log |L L'|."""
    return 2.0 * float(np.log(np.diag(factor)).sum())


def outer_rows(rows: Matrix) -> Matrix:
    """x x' of each row x, flattened: (n, d) -> (n, d*d)."""
    return (rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)


def _solve(factor: Matrix, right: NDArray[np.float64], transposed: int) -> NDArray[np.float64]:
    """BLAS's triangular solve: for few coordinates LAPACK's and scipy's lose more time to threads than they compute."""
    solution = dtrsm(1.0, factor, right.reshape(len(factor), -1), lower=1, trans_a=transposed)
    return np.asarray(solution, dtype=np.float64).reshape(right.shape)
