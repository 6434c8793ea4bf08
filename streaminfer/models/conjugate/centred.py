"""Centred moments of events: count, mean and scatter around the mean, which merge without losing digits.

Layout for events of d coordinates: (n, mean (d), rest of the mean (d), scatter (d*d, row by row)), with
scatter = sum (x - mean)(x - mean)', and mean + rest is the mean in twice the digits of float64.
A plain sum of squares of values whose mean/sd is 1e7 would keep 2 of its 16 digits. A mean of 16 digits places the
events to 1e-9 of their sd, which every merge would square up into the scatter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models import totals
from streaminfer.models.conjugate import roots
from streaminfer.models.events import LARGEST
from streaminfer.models.model import DomainError, Flags, Groups, Matrix, Vector

_LARGEST_N: Final = 1e20
_LARGEST_SQUARE: Final = 1e221
"""With these bounds n mean^2 + scatter stays in float64, also after division by the smallest prior numbers."""


ROUNDED: Final = 2.0**-50
"""Events that differ by this part of their mean differ by rounding."""
_BLOCK: Final = 1 << 18

_OWN: Final = (
    "",
    "a statistic is not finite",
    "the count of events is {n:g}",
    "a mean or a sum of squares is larger than any event allows",
    "there is a scatter without events",
)
FAULTS: Final = _OWN + roots.FAULTS[1:]
"""What may be wrong with moments; the first is «nothing»."""


class Centred(NamedTuple):
    """Checked moments: n, mean and its rest (d,), scatter (d, d), and root (d, d) with root' root = scatter."""

    n: float
    mean: Vector
    rest: Vector
    scatter: Matrix
    root: Matrix


class Rows(NamedTuple):
    """The same parts of k rows: n (k,), mean and rest (k, d), scatter and root (k, d, d); 0 if a row is wrong."""

    n: Vector
    mean: Matrix
    rest: Matrix
    scatter: NDArray[np.float64]
    root: NDArray[np.float64]


def size(d: int) -> int:
    """The length of the statistics."""
    return 1 + 2 * d + d * d


def empty(d: int) -> Vector:
    """No event: zeros."""
    return np.zeros(size(d))


def statistics(events: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> Vector:
    """The moments of events (..., n, d), n >= 1, each counted as often as its weight (..., n) says, or once."""
    counts = np.ones(events.shape[:-1]) if weights is None else weights
    n = counts.sum(axis=-1, keepdims=True)
    shares = (counts / n)[..., None, :]
    rounded = shares @ events
    around = events - rounded
    left = shares @ around
    around -= left
    if weights is not None:
        around *= np.sqrt(weights)[..., None]
    mean, rest = _two_sum(rounded[..., 0, :], left[..., 0, :])
    scatter = around.swapaxes(-1, -2) @ around
    return np.concatenate([n, mean, rest, scatter.reshape(*n.shape[:-1], -1)], axis=-1)


def statistics_by(events: Matrix, groups: Groups, k: int, weights: Vector | None = None) -> Matrix:
    """The moments (k, size) of each group of events (n, d); groups of one size are taken together."""
    rows = np.zeros((k, size(events.shape[1])))
    counts = np.bincount(groups, minlength=k)
    starts = np.cumsum(counts) - counts
    order = np.argsort(groups, kind="stable")
    present = np.flatnonzero(counts)
    for n in np.unique(counts[present]):
        alike = present[counts[present] == n]
        places = order[starts[alike][:, None] + np.arange(n)]
        rows[alike] = statistics(events[places], None if weights is None else weights[places])
    return rows


def merge(a: Vector, b: Vector, d: int) -> Vector:
    """The moments of both, for each row if they are (..., size)."""
    if a.ndim == b.ndim == 1:
        if b[0] == 0:
            return a
        if a[0] == 0:
            return b
        return _joined(b, a, d) if a[0] < b[0] else _joined(a, b, d)
    a, b = np.broadcast_arrays(a, b)
    swapped = a[..., :1] < b[..., :1]
    merged = _joined(np.where(swapped, b, a), np.where(swapped, a, b), d)
    only_a = b[..., 0] == 0
    only_b = (a[..., 0] == 0) & ~only_a
    merged[only_a], merged[only_b] = a[only_a], b[only_b]
    return merged


def _joined(a: Vector, b: Vector, d: int) -> Vector:
    """Scatters add, and n_a n_b / n (mean_b - mean_a)(mean_b - mean_a)' (Chan et al. 1983); n_a is not the smaller."""
    mean, rest = slice(1, 1 + d), slice(1 + d, 1 + 2 * d)
    with np.errstate(all="ignore"):
        merged = a + b
        share = b[..., :1] / merged[..., :1]
        change = (b[..., mean] - a[..., mean]) + (b[..., rest] - a[..., rest])
        merged[..., mean], merged[..., rest] = _two_sum(a[..., mean], a[..., rest] + share * change)
        half = np.sqrt(a[..., :1] * share) * change
        merged[..., 1 + 2 * d :] += (half[..., :, None] * half[..., None, :]).reshape(*half.shape[:-1], d * d)
    return merged


def scale(moments: Vector, weight: float | Vector, d: int) -> Vector:
    """Each event counted `weight` times: the mean stays. Moments are (..., size), the weight is (...,)."""
    scaled = totals.scale(moments, weight)
    scaled[..., 1 : 1 + 2 * d] = moments[..., 1 : 1 + 2 * d]
    return scaled


def checked(moments: Vector, d: int) -> Centred:
    """The parts of the vector; raises DomainError if no events have such moments."""
    if moments.shape != (size(d),):
        raise DomainError(f"statistics have shape {moments.shape}, not ({size(d)},)")
    rows, faults = examined(moments[None], d)
    n, mean, rest, scatter, root = (part[0] for part in rows)
    if faults[0]:
        raise DomainError(FAULTS[faults[0]].format(n=n))
    return Centred(float(n), mean, rest, scatter, root)


def proper(rows: Matrix, d: int) -> Flags:
    """The rows (k, size) that `checked` takes."""
    if rows.shape[1:] != (size(d),):
        raise DomainError(f"rows of statistics have shape {rows.shape[1:]}, not ({size(d)},)")
    return np.concatenate(
        [np.zeros(0, dtype=bool), *(examined(rows[part], d)[1] == 0 for part in blocks(len(rows), d))]
    )


def parts(rows: Matrix, d: int) -> Iterator[Rows]:
    """The parts of all rows (k, size), block by block; raises DomainError if no events have such moments."""
    for part in blocks(len(rows), d):
        found, faults = examined(rows[part], d)
        if faults.any():
            i = int(faults.argmax())
            raise DomainError(f"row {part.start + i} of the statistics: {FAULTS[faults[i]].format(n=found.n[i])}")
        yield found


def total(rows: Matrix, d: int) -> Vector:
    """The moments of all rows (k, size) together, merged two by two."""
    while len(rows) > 1:
        half = len(rows) // 2
        rows = np.concatenate([merge(rows[:half], rows[half : 2 * half], d), rows[2 * half :]])
    merged: Vector = rows[0]
    return merged


def examined(rows: Matrix, d: int) -> tuple[Rows, NDArray[np.intp]]:
    """The parts of each row (k, size), and what is wrong with it: an index of FAULTS, 0 if nothing is."""
    finite = np.isfinite(rows).all(axis=1)
    n, scatter = rows[:, 0], rows[:, 1 + 2 * d :]
    sizes, squares = np.abs(rows[:, 1 : 1 + 2 * d]).max(axis=1), np.abs(scatter).max(axis=1)
    faults = np.where((n == 0) & (squares > 0), 4, 0)
    faults[(sizes > LARGEST) | (squares > _LARGEST_SQUARE)] = 3
    faults[~((n >= 0) & (n <= _LARGEST_N))] = 2
    faults[~finite] = 1
    scatter = np.where((faults == 0)[:, None], scatter, 0.0).reshape(-1, d, d)
    found = roots.roots(scatter)
    faults[found.faults > 0] = len(_OWN) - 1 + found.faults[found.faults > 0]
    return Rows(n, rows[:, 1 : 1 + d], rows[:, 1 + d : 1 + 2 * d], scatter, found.roots), faults


def blocks(k: int, d: int) -> Iterator[slice]:
    """Slices of k rows whose matrices (d, d) together stay within a few megabytes."""
    step = max(1, _BLOCK // (d * d))
    return (slice(begin, begin + step) for begin in range(0, k, step))


def _two_sum(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """a + b rounded, and what the rounding left out, exactly (Knuth, TAOCP 2, section 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
