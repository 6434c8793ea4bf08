"""What a decision knows of all events without reading them: Taylor's expansion, and a bound on what it leaves out.

Between theta and theta' the log likelihood of an event changes by that of its expansion at an anchor, and by the change
of the remainder, which is at most c_n M (see `remainders`). Order 0 is the plain difference, with no anchor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import remainders
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.remainders import Expansion
from streaminfer.sampling.gradients.minibatches import Indices

ROUNDING: Final = 1e-10
"""What rounding may add to a change, as a part of the log likelihoods that it is the difference of."""


class BrokenBound(ValueError):
    """An event whose log likelihood changes by more than its model says that it can."""


def broken(event: int, change: float, bound: float) -> BrokenBound:
    return BrokenBound(
        f"derivative_bounds: the remainder of event {event} of the segment, counted from 0, changes by {change:.6g}, "
        f"and the bound is {bound:.6g}: the model's bounds are wrong, and no draw can be trusted; correct them"
    )


@dataclass(frozen=True, eq=False)
class Proxy:
    """An expansion with the scales c_n (n,) of its remainders, or (0,) if they have no bounds."""

    density: Density
    expansion: Expansion
    scales: Vector
    inverse: Matrix
    """R^-1 (d, d): distances are those of R^-1 theta; (0, 0) means of theta itself."""

    @property
    def order(self) -> int:
        return self.expansion.order

    @property
    def cost(self) -> int:
        """Likelihoods of single events that a change takes: here, there, and at the anchor."""
        return 2 if self.order == 0 else 3

    @cached_property
    def cumulative(self) -> Vector:
        """Sums of scales (n,): an event has the share of its scale."""
        return np.cumsum(self.scales)

    @property
    def total(self) -> float:
        """C, the sum of all scales."""
        return float(self.cumulative[-1]) if len(self.scales) else 0.0

    @cached_property
    def largest(self) -> float:
        return float(self.scales.max(initial=0.0))

    @cached_property
    def last(self) -> int:
        """The last event that can be picked."""
        return int(np.searchsorted(self.cumulative, self.total, side="left"))

    def pick(self, uniform: Vector) -> Indices:
        """Events by their scales, from uniform numbers (m,), in O(log N) each."""
        found = np.searchsorted(self.cumulative, uniform * self.total, side="right")
        return np.minimum(found, self.last)

    def white(self, theta: Vector) -> Vector:
        """R^-1 (theta - anchor), whose length is the distance from the anchor."""
        away = theta - self.expansion.anchor
        return self.inverse @ away if len(self.inverse) else away

    def most(self, before: Vector, after: Vector) -> float:
        """M of two places (d,) in these coordinates: the remainder of event n changes by at most c_n M."""
        lengths = (float(np.sqrt(each @ each)) for each in (before, after, after - before))
        return float(remainders.change(self.order, *lengths))

    def changes(self, theta: Vector, proposed: Vector, events: Indices) -> Vector:
        """By how much the remainders of some events change, (m,)."""
        return self._changes(theta, proposed, self.density.rows.take(events, axis=0))[0]

    def _changes(self, theta: Vector, proposed: Vector, rows: Matrix) -> tuple[Vector, Vector]:
        """The changes, and what rounding may have added to each."""
        target, both = self.density.target, np.stack([theta, proposed])
        logs = target.log_likelihood(both, rows)
        change = logs[1] - logs[0]
        if self.order > 0:
            taylor = remainders.expanded(target, self.order, self.expansion.anchor, both, rows)
            change = change - (taylor[1] - taylor[0])
        return change, ROUNDING * (1 + np.abs(logs).sum(axis=0))

    def bounded_changes(self, theta: Vector, proposed: Vector, events: Indices, most: float) -> tuple[Vector, Vector]:
        """The changes and their bounds c_n M, (m,) both; raises BrokenBound if one is beyond it."""
        change, rounding = self._changes(theta, proposed, self.density.rows.take(events, axis=0))
        bounds = self.scales[events] * most
        beyond = ~(np.abs(change) <= bounds + rounding)
        if beyond.any():
            i = int(np.argmax(beyond))
            raise broken(int(events[i]), float(change[i]), float(bounds[i]))
        return np.clip(change, -bounds, bounds), bounds


def proxy(density: Density, expansion: Expansion, root: Matrix, bounded: bool) -> Proxy:
    """With distances in the coordinates R^-1 theta of a root R (d, d), or of theta if it is (0, 0)."""
    scales = np.empty(0)
    if bounded:
        scales = remainders.scales(density.target, density.rows, expansion.order, root if len(root) else None)
    inverse = np.asarray(np.linalg.inv(root), dtype=np.float64) if len(root) else root
    return Proxy(density, expansion, scales, inverse)


def plain(density: Density) -> Expansion:
    """That of order 0, of which nothing but differences is used."""
    d = density.dimension
    return Expansion(0, np.zeros(d), 0.0, np.zeros(d), np.zeros((d, d)))
