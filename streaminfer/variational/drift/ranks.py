"""The rank of a value among earlier ones of its kind: uniform by chance alone, whatever the values' distribution.

A reference of 31 values cuts the line into 32 bins, each with mass 1, one for every gap between them. If all values are
drawn alike, the next one is equally likely in every gap, and then makes one more gap in its bin (Polya's urn). So the
bins' probabilities are their shares of the mass, exactly and without an estimate, and the state does not grow. These
are smoothed conformal p-values (Vovk, Gammerman & Shafer 2005), with ranks kept by bin.

Every stride-th value is set aside, unlooked at, for the next reference. So the reference comes from the whole time
since the last one, and from no value that was compared before. Otherwise the shares would not be the probabilities.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

EDGES: Final = 31
SKIPPED: Final = 8
"""The first values are not looked at: scores on little more than the prior would be the low end of the reference."""
FIRST_STRIDE: Final = 2
LAST_STRIDE: Final = 1024
"""Strides double from reference to reference up to this, so that each is of about the newer half of all values."""


class Pool(NamedTuple):
    """Values of one kind: the reference in order, the bins' masses (both empty at first), and the next one so far."""

    edges: tuple[float, ...] = ()
    masses: tuple[int, ...] = ()
    aside: tuple[float, ...] = ()
    stride: int = 1
    since: int = -SKIPPED
    """Values since the last that was set aside; below 0 while there are still some to skip."""


class Share(NamedTuple):
    """The part of the unit interval that is a value's bin; low values are near 0."""

    low: float
    high: float


def step(pool: Pool, value: float) -> tuple[Pool, Share | None]:
    """The pool with one more value, and the bin of that value; None if it was set aside or skipped."""
    since = pool.since + 1
    if since <= 0:
        return pool._replace(since=since), None
    if since == pool.stride:
        return _set_aside(pool, value), None
    found = bisect_right(pool.edges, value)
    masses = pool.masses
    below, total = sum(masses[:found]), sum(masses)
    share = Share(below / total, (below + masses[found]) / total)
    masses = (*masses[:found], masses[found] + 1, *masses[found + 1 :])
    return pool._replace(masses=masses, since=since), share


def _set_aside(pool: Pool, value: float) -> Pool:
    aside = (*pool.aside, value)
    if len(aside) < EDGES:
        return pool._replace(aside=aside, since=0)
    stride = FIRST_STRIDE if pool.stride == 1 else min(2 * pool.stride, LAST_STRIDE)
    return Pool(tuple(sorted(aside)), (1,) * (EDGES + 1), (), stride, 0)
