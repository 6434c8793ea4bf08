"""The graph Stein discrepancy (Gorham and Mackey 2015): linear programs over smooth test functions at the draws.

It is the largest mean of score · g + div g that a vector g of functions can have, each of size, slope and bend at most
1, by the L1 norm. Conditions are only on pairs of a 2-spanner. In more than two dimensions the functions can fit every
draw, and the value comes near its bound whatever the draws are: read it beside `bound`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.measuring import whitening
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.stein import spanner
from streaminfer.models.model import Matrix, Vector

MOST: Final = {1: 5000}
"""The most different points, by dimension."""
MOST_OTHER: Final = 500


class Discrepancy(NamedTuple):
    """`value` is at most `bound`, the sum over coordinates of E |score| + 1, which says nothing of the draws."""

    value: float
    bound: float
    n: int
    """Different points."""


class Support(NamedTuple):
    """Where the posterior is: between lower and upper (d,), either of which may be infinite."""

    lower: Vector
    upper: Vector


def measure(
    points: Matrix, scores: Matrix, *, weights: Vector | None = None, support: Support | None = None
) -> Discrepancy:
    """Of points (n, d) with scores (n, d) and weights (n,). Raises Unknowable if there are too many points.

    Points and scores may be whitened, if the support is not bounded.
    """
    points, scores, shares = whitening.scored(points, scores, weights)
    if support is not None and not ((points >= support.lower) & (points <= support.upper)).all():
        raise Unknowable("Some draws are outside of the support of the posterior.")
    points, scores, shares = _merged(points, scores, shares)
    n, d = points.shape
    most = MOST.get(d, MOST_OTHER)
    if n > most:
        raise Unknowable(f"There are {n:,} different draws, and at most {most:,} can be compared.", "Thin them.")
    bound = float((shares @ np.abs(scores) + 1).sum())
    rows, room = _conditions(points)
    value = sum(_largest(points, scores, shares, j, rows, room, support) for j in range(d))
    return Discrepancy(value, bound, n)


def _merged(points: Matrix, scores: Matrix, shares: Vector) -> tuple[Matrix, Matrix, Vector]:
    """Each different point once, with the sum of its weights and the mean of its scores."""
    different, which = np.unique(points, axis=0, return_inverse=True)
    which = which.ravel()
    total = np.bincount(which, shares, len(different)).astype(np.float64)
    held = total > 0
    summed = np.zeros(different.shape)
    np.add.at(summed, which, shares[:, None] * scores)
    return different[held], summed[held] / total[held, None], total[held]


def _conditions(points: Matrix) -> tuple[Any, Vector]:
    """Rows over (g at all points, gradients at all points, axis by axis), each at most `room` in size.

    For each edge: g and its gradient are Lipschitz, and both tangents tell the other end up to half a squared length.
    Rows are divided by the length of the edge, so that short edges are as exact as long ones.
    """
    from scipy import sparse

    n, d = points.shape
    pairs = spanner.edges(points)
    if not len(pairs):
        return sparse.csr_array((0, n * (d + 1))), np.empty(0)
    m, lengths = len(pairs), spanner.lengths_of(points, pairs)
    edge = np.arange(m)
    ends = [sparse.coo_array((1 / lengths, (edge, pairs[:, k])), shape=(m, n)) for k in (0, 1)]
    apart = ends[0] - ends[1]
    nothing = sparse.coo_array((m, n))
    blocks: list[list[Any]] = [[apart if k == axis else nothing for k in range(d + 1)] for axis in range(d + 1)]
    away = points[pairs[:, 0]] - points[pairs[:, 1]]
    blocks += [[apart, *(-sparse.diags_array(away[:, k]) @ end for k in range(d))] for end in ends]
    return sparse.block_array(blocks, format="csr"), np.concatenate([np.ones(m * (d + 1)), lengths / 2, lengths / 2])


def _largest(
    points: Matrix, scores: Matrix, shares: Vector, j: int, rows: Any, room: Vector, support: Support | None
) -> float:
    """The linear program of coordinate j, by HiGHS."""
    from scipy import optimize, sparse

    n, d = points.shape
    gain, most = np.zeros((d + 1, n)), np.ones((d + 1, n))
    gain[0], gain[1 + j] = shares * scores[:, j], shares
    for edge in () if support is None else (support.lower[j], support.upper[j]):
        if np.isfinite(edge):
            # g is 0 at the edge, and so are its slopes along it
            away = points[:, j] - edge
            others = [k for k in range(d + 1) if k != 1 + j]
            most[others] = np.minimum(most[others], np.abs(away))
            blocks: list[Any] = [sparse.coo_array((n, n)) for _ in range(d + 1)]
            blocks[0], blocks[1 + j] = sparse.eye_array(n), -sparse.diags_array(away)
            rows = sparse.vstack([rows, sparse.hstack(blocks)], format="csr")
            room = np.concatenate([room, 0.5 * away**2])
    most = most.ravel()
    linprog: Any = optimize.linprog  # its types know no sparse matrices
    found = linprog(
        -gain.ravel(),
        A_ub=sparse.vstack([rows, -rows], format="csr"),
        b_ub=np.concatenate([room, room]),
        bounds=np.stack([-most, most], axis=1),
        method="highs",
    )
    if found.status != 0:
        raise Unknowable(f"The linear program of coordinate {j} has no solution: {found.message}")
    return float(-found.fun)
