"""Square roots of sums of squares: with them a posterior is found without forming X'X and losing half the digits.

A matrix M = sum of v v' over rows v is held as any G with G'G = M; rows are added by orthogonal transformations
(Golub & Van Loan, Matrix Computations, sections 5.2, 6.5.3 and 10.3).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streaminfer.families.matrices import solve_lower_transposed
from streaminfer.families.special import dpstrf
from streaminfer.models.model import DomainError, Matrix, Vector

ROUNDING: Final = 1e-6
"""A correlation may leave its bounds by this much through rounding; more is no scatter of events."""

_NO_SPREAD: Final = 1e-280
"""A sum of squares below this has lost digits to underflow and counts as 0."""


def root(scatter: Matrix) -> Matrix:
    """G (d, d) with G'G = scatter, positive semidefinite up to rounding; raises DomainError where it is not.

    Pivoted Cholesky of the correlations, so the units of the coordinates do not matter.
    """
    d = len(scatter)
    squares = scatter.diagonal()
    if not (squares >= 0).all():
        raise DomainError("a sum of squares is negative")
    if not scatter.any():
        return np.zeros((d, d))
    scales = np.sqrt(np.where(squares < _NO_SPREAD, 1.0, squares))
    with np.errstate(over="ignore"):
        correlations = scatter / scales / scales[:, None]
    if not (np.abs(correlations) <= 1 + ROUNDING).all():
        raise DomainError("a correlation is larger than 1")
    upper, pivots, rank, _ = dpstrf(correlations)
    triangle = np.triu(upper)
    triangle[rank:] = 0
    unscaled = np.zeros((d, d))
    unscaled[:, pivots - 1] = triangle
    if np.abs(correlations - unscaled.T @ unscaled).max() > ROUNDING:
        raise DomainError("the scatter is not symmetric and positive semidefinite")
    return unscaled * scales


def triangle(rows: Matrix) -> Matrix:
    """The upper triangular R (k, k) with R'R = rows' rows and no negative diagonal; rows are (m, k), m >= k."""
    upper = np.asarray(np.linalg.qr(rows, mode="r"), dtype=np.float64)
    signs = np.where(upper.diagonal() < 0, -1.0, 1.0)
    return upper * signs[:, None]


def absorb(upper: Matrix, row: Vector) -> Matrix:
    """The triangle of R'R + v v', by Givens rotations.

    A row that is 1e7 times larger than the others, such as a mean, leaves them their digits: it is rotated against
    one row at a time and never mixed into two.
    """
    return _rotate(upper, row, len(row))[0]


class Fit(NamedTuple):
    """Least squares of the last column by the others: coefficients, root of the sum of squares left, and the residual
    of the row that was added last."""

    coefficients: Vector
    root: float
    residual: float


def fit(rows: Matrix, large: Vector) -> Fit:
    """Least squares over rows (m, k) and one row (k,) that may be much larger than they are.

    Columns are taken in the order in which the large row dominates them: in any other, back-substitution would subtract
    numbers of its size. Its residual is its last entry after all rotations, times their cosines.
    """
    order = np.argsort(-np.abs(large[:-1]) / np.linalg.norm(rows[:, :-1], axis=0), kind="stable")
    columns = np.append(order, len(order))
    upper, row, cosines = _rotate(triangle(rows[:, columns]), large[columns], len(order))
    coefficients = np.empty(len(order))
    coefficients[order] = solve_lower_transposed(upper[:-1, :-1].T, upper[:-1, -1])
    return Fit(coefficients, math.hypot(upper[-1, -1], row[-1]), float(row[-1] * cosines))


def _rotate(upper: Matrix, row: Vector, columns: int) -> tuple[Matrix, Vector, float]:
    """Triangle and row after the row's first `columns` entries are rotated to 0, and the product of the cosines."""
    upper, row, cosines = upper.copy(), row.copy(), 1.0
    for k in range(columns):
        length = math.hypot(upper[k, k], row[k])
        if length > 0:
            c, s = upper[k, k] / length, row[k] / length
            above = upper[k, k:].copy()
            upper[k, k:] = c * above + s * row[k:]
            row[k:] = c * row[k:] - s * above
            cosines *= c
    return upper, row, cosines
