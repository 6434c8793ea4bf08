"""Square roots of sums of squares: with them a posterior is found without forming X'X and losing half the digits.

A matrix M = sum of v v' over rows v is held as any G with G'G = M; rows are added by orthogonal transformations
(Golub & Van Loan, Matrix Computations, sections 5.2, 6.5.3 and 10.3).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.matrices import solve_lower_transposed
from streaminfer.families.special import dpstrf
from streaminfer.models.model import DomainError, Matrix, Vector

ROUNDING: Final = 1e-6
"""A correlation may leave its bounds by this much through rounding; with more it is not a scatter of events."""

_NO_SPREAD: Final = 1e-280
"""A sum of squares below this has lost digits to underflow and counts as 0."""

FAULTS: Final = (
    "",
    "a sum of squares is negative",
    "a correlation is larger than 1",
    "the scatter is not symmetric and positive semidefinite",
)


class Roots(NamedTuple):
    """G (k, d, d) with G'G = each of k scatters, and what is wrong (k,): an index of FAULTS, 0 if nothing is."""

    roots: NDArray[np.float64]
    faults: NDArray[np.intp]


def root(scatter: Matrix) -> Matrix:
    """G (d, d) with G'G = scatter, positive semidefinite up to rounding; raises DomainError if it is not."""
    found = roots(scatter[None])
    if found.faults[0]:
        raise DomainError(FAULTS[found.faults[0]])
    first: Matrix = found.roots[0]
    return first


def roots(scatters: NDArray[np.float64]) -> Roots:
    """The roots of finite scatters (k, d, d).

    Pivoted Cholesky of the correlations, so the units of the coordinates do not matter.
    """
    squares = scatters.diagonal(axis1=1, axis2=2)
    scales = np.sqrt(np.where(squares < _NO_SPREAD, 1.0, squares))
    with np.errstate(over="ignore"):
        correlations = scatters / scales[:, None, :] / scales[:, :, None]
    bounded = (np.abs(correlations) <= 1 + ROUNDING).all(axis=(1, 2))
    faults = np.where((squares >= 0).all(axis=1), np.where(bounded, 0, 2), 1)
    correlations[faults > 0] = 0
    unscaled = _factors(correlations)
    with np.errstate(over="ignore", invalid="ignore"):
        left = np.abs(correlations - unscaled.swapaxes(1, 2) @ unscaled).max(axis=(1, 2))
    faults[~(left <= ROUNDING)] = 3
    return Roots(unscaled * scales[:, None, :], faults)


def _factors(correlations: NDArray[np.float64]) -> NDArray[np.float64]:
    """U (k, d, d) with U'U = the correlations, as far as they have such a factor."""
    d = correlations.shape[1]
    if d == 1:
        return np.sqrt(np.maximum(correlations, 0))
    k, places = len(correlations), np.arange(d)
    upper, ranks = np.zeros((k, d, d)), np.zeros(k, dtype=np.intp)
    pivots = np.ones((k, d), dtype=np.intp)
    # LAPACK has no pivoted factorisation of many matrices; one call takes about as long as its share of the rest here.
    for i in np.flatnonzero(correlations.any(axis=(1, 2))):
        upper[i], pivots[i], ranks[i], _ = dpstrf(correlations[i])
    kept = (places[:, None] <= places) & (places[:, None] < ranks[:, None, None])
    factors = np.zeros((k, d, d))
    factors[np.arange(k)[:, None, None], places[:, None], pivots[:, None, :] - 1] = np.where(kept, upper, 0.0)
    return factors


def triangle(rows: Matrix) -> Matrix:
    """The upper triangular R (..., k, k) with R'R = rows' rows and no negative diagonal; rows: (..., m, k), m >= k."""
    upper = np.asarray(np.linalg.qr(rows, mode="r"), dtype=np.float64)
    signs = np.where(upper.diagonal(axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return upper * signs[..., None]


def absorb(upper: Matrix, row: Vector) -> Matrix:
    """The triangle of R'R + v v', by Givens rotations.

    A row that is 1e7 times larger than the others, such as a mean, leaves them their digits: it is rotated against one
    row at a time and never mixed into two.
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
