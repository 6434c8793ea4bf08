"""Estimates of a log density's gradient from a minibatch, plain or with control variates.

Plain: prior + N/B sum over the minibatch of g_n(theta). With control variates (Baker et al. 2019): prior + sum over all
rows of g_n(anchor) + N/B sum over the minibatch of g_n(theta) - g_n(anchor), whose noise is small near the anchor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.density import Density, scores
from streaminfer.models.targets.kinds.margins import Margins
from streaminfer.sampling.gradients.minibatches import Indices


class Anchor(NamedTuple):
    """A place (d,) with the gradient (d,) of the log likelihood of all rows there.

    If an event is a margin its gradient is a slope times its row, and `slopes` (n,) has those of all rows. Otherwise it
    is (0,), and gradients at the anchor are computed for each minibatch.
    """

    position: Vector
    gradient: Vector
    slopes: Vector


def anchor(density: Density, position: Vector, gradient: Vector | None = None) -> Anchor:
    """An anchor at `position` (d,): one pass over all rows, and another one for its gradient if that is not known."""
    if gradient is None:
        gradient = density.likelihood_gradient(position[None])[0]
    slopes = np.empty(0)
    if isinstance(density.target, Margins):
        parts = (density.target.slope(part @ position) for part in density.blocks())
        slopes = np.concatenate([slopes, *parts])
    return Anchor(position.copy(), gradient, slopes)


class Around(NamedTuple):
    """What estimates of margins have around the sum over a minibatch: precision (mean - theta) + base, all (d,).

    `slopes` are subtracted from those of rows, (n,), or (0,) without an anchor.
    """

    base: Vector
    slopes: Vector
    mean: Vector
    precision: Vector


@dataclass(frozen=True, eq=False)
class Gradients:
    """Estimates from minibatches; with an anchor by control variates."""

    density: Density
    anchor: Anchor | None = None

    @cached_property
    def around(self) -> Around | None:
        """None unless events are margins."""
        target, fixed = self.density.target, self.anchor
        if not isinstance(target, Margins):
            return None
        mean, precision = target.prior
        base, slopes = (np.zeros(len(mean)), np.empty(0)) if fixed is None else (fixed.gradient, fixed.slopes)
        return Around(base, slopes, mean, self.density.share * precision)

    def __call__(self, theta: Vector, indices: Indices) -> Vector:
        """The estimate at theta (d,) from the rows of one minibatch (B,)."""
        density, fixed = self.density, self.anchor
        rows = density.rows.take(indices, axis=0)
        scale = density.n / len(indices)
        if self.around is not None:
            return self._of_margins(self.around, theta, indices, rows, scale)
        found: Vector = density.share * density.target.prior_gradient(theta[None])[0]
        if fixed is None:
            found += scale * density.target.gradient(theta[None], rows)[0]
        else:
            here, there = density.target.gradient(np.stack([theta, fixed.position]), rows)
            found += scale * (here - there) + fixed.gradient
        return found

    def _of_margins(self, around: Around, theta: Vector, indices: Indices, rows: Matrix, scale: float) -> Vector:
        """In place, as arrays are small: to make one takes as long as to fill it."""
        slopes = self.density.target.slope(rows @ theta)
        if len(around.slopes):
            slopes -= around.slopes[indices]
        found: Vector = slopes @ rows
        found *= scale
        rest = around.mean - theta
        rest *= around.precision
        rest += around.base
        found += rest
        return found

    def terms(self, theta: Vector, rows: Matrix) -> Matrix:
        """What each of some rows adds to the estimate, apart from N/B: (n, d)."""
        target, fixed = self.density.target, self.anchor
        found = scores(target, theta, rows)
        return found if fixed is None else found - scores(target, fixed.position, rows)

    @property
    def cost(self) -> int:
        """Gradients of single events that each event of a minibatch takes."""
        return 2 if self.anchor is not None and not len(self.anchor.slopes) else 1
