"""Centred moments of events: count, mean and scatter around the mean, which merge without losing digits.

Layout for events of d coordinates: (n, mean (d), rest of the mean (d), scatter (d*d, row by row)), where
scatter = sum (x - mean)(x - mean)' and mean + rest is the mean in twice the digits of float64.
A plain sum of squares of values whose mean/sd is 1e7 would keep 2 of its 16 digits; a mean of 16 digits places the
events to 1e-9 of their sd, which every merge would square up into the scatter.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streaminfer.models import roots
from streaminfer.models.events import LARGEST
from streaminfer.models.model import DomainError, Matrix, Vector

_LARGEST_N: Final = 1e20
_LARGEST_SQUARE: Final = 1e221
"""With these bounds n mean^2 + scatter stays in float64, also after division by the smallest prior numbers."""


class Centred(NamedTuple):
    """Checked moments: n, mean and its rest (d,), scatter (d, d), and root (d, d) with root' root = scatter."""

    n: float
    mean: Vector
    rest: Vector
    scatter: Matrix
    root: Matrix


def size(d: int) -> int:
    """The length of the statistics."""
    return 1 + 2 * d + d * d


def empty(d: int) -> Vector:
    """No event: zeros."""
    return np.zeros(size(d))


def statistics(events: Matrix, weights: Vector | None = None) -> Vector:
    """The moments of events (n, d), n >= 1, each counted as often as its weight says, or once."""
    if weights is None:
        weights = np.ones(len(events))
    n = weights.sum()
    rounded = weights / n @ events
    around = events - rounded
    left = weights / n @ around
    around -= left
    around *= np.sqrt(weights)[:, None]
    return np.concatenate([[n], *_two_sum(rounded, left), (around.T @ around).ravel()])


def merge(a: Vector, b: Vector, d: int) -> Vector:
    """The moments of both: scatters add, and n_a n_b / n (mean_b - mean_a)(mean_b - mean_a)' (Chan et al. 1983)."""
    if b[0] == 0:
        return a
    if a[0] == 0:
        return b
    if a[0] < b[0]:
        a, b = b, a
    mean, rest = slice(1, 1 + d), slice(1 + d, 1 + 2 * d)
    with np.errstate(all="ignore"):
        merged = a + b
        share = b[0] / merged[0]
        change = (b[mean] - a[mean]) + (b[rest] - a[rest])
        merged[mean], merged[rest] = _two_sum(a[mean], a[rest] + share * change)
        half = np.sqrt(a[0] * share) * change
        merged[1 + 2 * d :] += np.outer(half, half).ravel()
    return merged


def scale(moments: Vector, weight: float, d: int) -> Vector:
    """Each event counted `weight` times: the mean stays."""
    scaled = moments * weight
    scaled[1 : 1 + 2 * d] = moments[1 : 1 + 2 * d]
    return scaled


def checked(moments: Vector, d: int) -> Centred:
    """The parts of the vector; raises DomainError where no events have such moments."""
    if moments.shape != (size(d),):
        raise DomainError(f"statistics have shape {moments.shape}, not ({size(d)},)")
    if not np.isfinite(moments).all():
        raise DomainError("a statistic is not finite")
    n, scatter = float(moments[0]), moments[1 + 2 * d :].reshape(d, d)
    if not 0 <= n <= _LARGEST_N:
        raise DomainError(f"the count of events is {n:g}")
    if np.abs(moments[1 : 1 + 2 * d]).max() > LARGEST or np.abs(scatter).max() > _LARGEST_SQUARE:
        raise DomainError("a mean or a sum of squares is larger than any event allows")
    if n == 0 and scatter.any():
        raise DomainError("no events have a scatter")
    return Centred(n, moments[1 : 1 + d], moments[1 + d : 1 + 2 * d], scatter, roots.root(scatter))


def _two_sum(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """a + b rounded, and what the rounding left out, exactly (Knuth, TAOCP 2, section 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
