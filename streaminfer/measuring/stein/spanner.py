"""A sparse graph of points in which every two are joined by a path at most twice as long as their L1 distance."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector

STRETCH: Final = 2.0
Edges = NDArray[np.intp]


def edges(points: Matrix, stretch: float = STRETCH) -> Edges:
    """Pairs of indices (m, 2) of different points (n, d): neighbours in one dimension, else the greedy spanner.

    The greedy one (Althöfer et al. 1993) looks at pairs by rising distance, and joins those that the edges so far do
    not join by a path of `stretch` times their distance. It has about n edges, not n^2.
    """
    n, d = points.shape
    if d == 1:
        order = np.argsort(points[:, 0], kind="stable")
        return np.stack([order[:-1], order[1:]], axis=1)
    left, right = np.triu_indices(n, 1)
    lengths = lengths_of(points, np.stack([left, right], axis=1))
    rising = np.argsort(lengths, kind="stable")
    paths = np.full((n, n), np.inf)
    np.fill_diagonal(paths, 0.0)
    found = []
    for i, j, length in zip(left[rising].tolist(), right[rising].tolist(), lengths[rising].tolist(), strict=True):
        if paths[i, j] > stretch * length:
            found.append((i, j))
            # the shortest paths stay exact: a new one goes over the new edge, one way or the other
            over = paths[:, i, None] + (length + paths[j])
            np.minimum(paths, over, out=paths)
            np.minimum(paths, over.T, out=paths)
    return np.array(found, dtype=np.intp).reshape(-1, 2)


def lengths_of(points: Matrix, pairs: Edges) -> Vector:
    """L1 distances of pairs (m, 2)."""
    return np.asarray(np.abs(points[pairs[:, 0]] - points[pairs[:, 1]]).sum(axis=1), dtype=np.float64)
