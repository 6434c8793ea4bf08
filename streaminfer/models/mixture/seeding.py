"""The start of a mixture: a first guess of which events belong together, from a seed and the events alone.

k-means++ (Arthur & Vassilvitskii 2007) and a few of Lloyd's steps on the distinct events, in units of their spread. The
best of several draws is taken, with the least sum of squares: one draw may put two centres into a cluster and none into
another. The order of the events and the place and units of the fields do not matter, so all workers share one start.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector

_STEPS: Final = 10
_DRAWS: Final = 16
_NO_SPREAD: Final = 1e-60
"""A middle half of the values that is narrower than this part of their range is not a unit: squares would overflow."""


def labels(events: Matrix, weights: Vector | None, k: int, seed: int) -> NDArray[np.intp]:
    """The group (n,), from 0 to k - 1, of each event (n, d); the weights are above 0.

    Distinct events may be fewer than k; then the last groups have none.
    """
    distinct, places = np.unique(events, axis=0, return_inverse=True)
    places = places.reshape(-1)
    masses = np.bincount(places, weights).astype(np.float64)
    points, rng = _in_units(distinct), np.random.default_rng(seed)
    groups, least = _grouped(points, masses, k, rng)
    for _ in range(_DRAWS - 1):
        found, squares = _grouped(points, masses, k, rng)
        if squares < least:
            groups, least = found, squares
    return groups[places]


def _grouped(points: Matrix, masses: Vector, k: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], float]:
    """The groups (n,) of one draw, and the sum of squares around their centres."""
    centres = _spread_out(points, masses, k, rng)
    groups = _nearest(points, centres)
    for _ in range(_STEPS):
        centres = _means(points, masses, groups, centres)
        before, groups = groups, _nearest(points, centres)
        if np.array_equal(before, groups):
            break
    around = points - centres[groups]
    return groups, float(masses @ np.einsum("nd,nd->n", around, around))


def _in_units(points: Matrix) -> Matrix:
    """Each field from its median, in units of the width of the middle half of its values or, without one, their range.

    Unlike a standard deviation the middle half does not see a few values that are far larger than all others.
    """
    low, median, high = np.quantile(points, [0.25, 0.5, 0.75], axis=0, method="nearest")
    width, extent = high - low, points.max(axis=0) - points.min(axis=0)
    unit = np.where(width > _NO_SPREAD * extent, width, extent)
    return np.asarray((points - median) / np.where(unit > 0, unit, 1.0), dtype=np.float64)


def _spread_out(points: Matrix, masses: Vector, k: int, rng: np.random.Generator) -> Matrix:
    """At most k of the points, each drawn with odds of its squared distance from those before."""
    chosen = [_draw(masses, rng)]
    distances = np.full(len(points), np.inf)
    while len(chosen) < k:
        distances = np.minimum(distances, _squares(points, points[chosen[-1]]))
        odds = masses * distances
        if not odds.any():
            break
        chosen.append(_draw(odds, rng))
    return points[chosen]


def _draw(odds: Vector, rng: np.random.Generator) -> int:
    """An index with these odds; never one without any."""
    sums = np.cumsum(odds / odds.max())
    return int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))


def _nearest(points: Matrix, centres: Matrix) -> NDArray[np.intp]:
    """The first of the nearest centres of each point."""
    nearest, best = np.zeros(len(points), dtype=np.intp), np.full(len(points), np.inf)
    for i, centre in enumerate(centres):
        distances = _squares(points, centre)
        closer = distances < best
        nearest[closer], best[closer] = i, distances[closer]
    return nearest


def _means(points: Matrix, masses: Vector, groups: NDArray[np.intp], centres: Matrix) -> Matrix:
    """The mean of each group; a group without points keeps its centre."""
    k = len(centres)
    totals = np.bincount(groups, masses, minlength=k)
    sums = np.stack([np.bincount(groups, masses * column, minlength=k) for column in points.T], axis=1)
    present = totals > 0
    return np.where(present[:, None], sums / np.where(present, totals, 1.0)[:, None], centres)


def _squares(points: Matrix, centre: Vector) -> Vector:
    around = points - centre
    return np.asarray(np.einsum("nd,nd->n", around, around), dtype=np.float64)
