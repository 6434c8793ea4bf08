"""The Stein kernel of the inverse multiquadric k(u, v) = (1 + |u - v|^2)^(-1/2), for many pairs at once.

Other usual kernels miss that draws do not converge (Gorham and Mackey 2017). The mean of the Stein kernel over
independent pairs is the squared kernel Stein discrepancy, and 0 under the posterior.
"""

from __future__ import annotations

import numpy as np

from streaminfer.models.model import Matrix, Vector


def pairs(u: Matrix, scores: Matrix, v: Matrix, others: Matrix) -> Matrix:
    """The Stein kernel of points u (n, d) and v (m, d) with their scores: (n, m).

    With w = u - v and q = 1 + |w|^2 it is s·t q^-1/2 + ((s - t)·w + d) q^-3/2 - 3 |w|^2 q^-5/2. Products of matrices
    give all parts, so points should not be far from 0 by their own distances.
    """
    distances = _squares(u, v)
    along = np.einsum("ij,ij->i", scores, u)[:, None] + np.einsum("ij,ij->i", others, v)
    along -= np.hstack([scores, u]) @ np.hstack([v, others]).T
    inverse = 1 / (1 + distances)
    # ((s - t)·w + d - 3 |w|^2 / q) / q + s·t, all times q^-1/2
    distances *= inverse
    distances *= -3.0
    distances += along
    distances += u.shape[1]
    distances *= inverse
    distances += scores @ others.T
    distances *= np.sqrt(inverse, out=inverse)
    return distances


def differences(u: Matrix, scores: Matrix, v: Matrix, others: Matrix) -> Matrix:
    """s·t k(u, v): the same mean, if s and t are the posterior's scores less those of what was drawn from.

    It is 0 for every pair if both are the same, so it tells small differences (Liu, Lee and Jordan 2016).
    """
    kernel = _squares(u, v)
    kernel += 1
    np.sqrt(kernel, out=kernel)
    return np.asarray(scores @ others.T / kernel, dtype=np.float64)


def diagonal(scores: Matrix) -> Vector:
    """The Stein kernel of each point with itself: |score|^2 + d, (n,)."""
    return np.asarray(np.einsum("ij,ij->i", scores, scores) + scores.shape[1], dtype=np.float64)


def _squares(u: Matrix, v: Matrix) -> Matrix:
    """|u - v|^2 of all pairs, (n, m)."""
    found = u @ (-2 * v.T)
    found += np.einsum("ij,ij->i", u, u)[:, None]
    found += np.einsum("ij,ij->i", v, v)
    return np.maximum(found, 0.0, out=found)
