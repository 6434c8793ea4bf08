"""Scores: the gradient of a posterior's log density in theta, of all events, anchored, or of a segment.

`all` sums over all rows. `anchored` holds a subset of m rows: the gradient of all rows at one place is known, and the
subset tells only how it changes from there (control variates, Baker et al. 2019). `segment` has an older posterior in
place of the prior, and all rows since. A plain subset is never scaled up to a score: that moves all scores alike, by
sqrt(d (N/m - 1)) posterior deviations.

Events may have weights, those of forgetting. The prior has none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from streaminfer.measuring.densities import LogDensity
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import density as densities
from streaminfer.models.targets import parts
from streaminfer.models.targets.density import Density

Kind = Literal["all", "anchored", "segment"]
PARTS: Final = 20
"""Of a held subset, whose differences are its error."""


class Score(Protocol):
    """The gradient of a log density of d numbers."""

    @property
    def kind(self) -> Kind:
        """Which one."""

    @property
    def n_data(self) -> int:
        """Events that it is of."""

    def gradient(self, theta: Matrix) -> Matrix:
        """At each theta (k, d): (k, d)."""

    def error(self, theta: Matrix) -> Matrix:
        """The standard error of each number of the gradient (k, d); 0 if no event is left out."""

    def parts(self, theta: Matrix) -> NDArray[np.float64]:
        """Gradients (b, k, d), each by another part of the held events, whose mean is `gradient`.

        What they differ by is the error that the subset adds to whatever is computed of them. It is (1, k, d) if no
        event is left out.
        """

    @property
    def correction(self) -> float:
        """How much of the variance among parts counts: 1 less the part of all events that is held."""


class _Whole(ABC):
    """A score that no event is left out of."""

    correction = 0.0

    @abstractmethod
    def gradient(self, theta: Matrix) -> Matrix:
        """(k, d)."""

    def error(self, theta: Matrix) -> Matrix:
        return np.zeros(theta.shape)

    def parts(self, theta: Matrix) -> NDArray[np.float64]:
        return self.gradient(theta)[None]


@dataclass(frozen=True, eq=False)
class AllEvents(_Whole):
    """Prior and all rows, which may have weights."""

    density: Density
    kind: Kind = "all"

    @property
    def n_data(self) -> int:
        return self.density.n

    def gradient(self, theta: Matrix) -> Matrix:
        return self.density.gradient(theta)

    def log_density(self, theta: Matrix) -> Vector:
        """(k,)."""
        return self.density.log_density(theta)


@dataclass(frozen=True, eq=False)
class Segment(_Whole):
    """An older posterior in place of the prior, and all rows since it, which may have weights.

    With forgetting, `base` is the older posterior as it counts now: of its statistics, scaled by what they have lost.
    """

    base: LogDensity
    density: Density
    kind: Kind = "segment"

    @property
    def n_data(self) -> int:
        return self.density.n

    def gradient(self, theta: Matrix) -> Matrix:
        return self.base.gradient(theta) + self.density.likelihood_gradient(theta)

    def log_density(self, theta: Matrix) -> Vector:
        """(k,)."""
        return self.base.value(theta) + self.density.log_likelihood(theta)


@dataclass(frozen=True, eq=False)
class Anchored:
    """prior + sum of all rows at the anchor + sum over held rows of scale (g_i(theta) - g_i(anchor)).

    The error grows with the distance from the anchor and falls with 1 / sqrt(m), whatever N is.
    """

    target: Any
    anchor: Vector
    at_anchor: Vector
    """The gradient of the log likelihood of all rows there, weights included, (d,)."""
    rows: Matrix
    """Those that are held, (m, columns)."""
    scales: Vector
    """How much each of them stands for, (m,): their sum is that of all weights."""
    variances: Vector
    """The variance of each scale, (m,); 0 if all events are held."""
    n_data: int
    kind: Kind = "anchored"

    def gradient(self, theta: Matrix) -> Matrix:
        found: Matrix = self._known(theta) + self._changes(theta)[0]
        return found

    def _known(self, theta: Matrix) -> Matrix:
        return np.asarray(self.target.prior_gradient(theta) + self.at_anchor, dtype=np.float64)

    def _changes(self, theta: Matrix, groups: int = 1) -> NDArray[np.float64]:
        """The sum over the held rows of each group, every groups-th row: (groups, k, d)."""
        total = np.zeros((groups, *theta.shape))
        there = np.zeros((groups, 1, theta.shape[1]))
        for g in range(groups):
            rows, scales = self.rows[g::groups], self.scales[g::groups]
            for each in parts.slices(rows, len(theta)):
                total[g] += densities.gradient(self.target, theta, rows[each], scales[each])
                there[g] += densities.gradient(self.target, self.anchor[None], rows[each], scales[each])
        return total - there

    def error(self, theta: Matrix) -> Matrix:
        """sqrt of the sum of variance_i (x_i - mean x)^2, x_i = g_i(theta) - g_i(anchor)."""
        found, before = np.empty(theta.shape), densities.scores(self.target, self.anchor, self.rows)
        shares = self.scales / max(self.scales.sum(), np.finfo(float).tiny)
        for k, at in enumerate(theta):
            changes = densities.scores(self.target, at, self.rows) - before
            found[k] = self.variances @ (changes - shares @ changes) ** 2
        return np.sqrt(found)

    def parts(self, theta: Matrix) -> NDArray[np.float64]:
        groups = min(PARTS, len(self.rows)) if self.variances.any() else 1
        return np.asarray(self._known(theta) + groups * self._changes(theta, groups), dtype=np.float64)

    @property
    def correction(self) -> float:
        squares = float(self.scales @ self.scales)
        return float(self.variances.sum()) / squares if squares > 0 else 0.0


class Anchoring:
    """Makes an anchored score in one pass: rows are added block by block, in any sizes, and `finish` ends it.

    Rows are held by priority (Duffield, Lund & Thorup 2007): those with the largest weight / uniform. A row of weight w
    stands for max(w, tau), tau the largest priority that is not held. Sums of that are unbiased, with the variance
    tau max(0, tau - w) each. Scales are then divided so that their sum is that of all weights: with equal weights they
    are N/m, and the subset is one without replacement.
    """

    def __init__(self, target: Any, anchor: Vector, held: int, rng: np.random.Generator) -> None:
        if held < 2:
            raise ValueError(f"at least 2 rows must be held for a standard error, not {held}")
        self._target, self._anchor, self._held, self._rng = target, np.array(anchor, dtype=np.float64), held, rng
        self._gradient, self._total, self._n = np.zeros(len(anchor)), 0.0, 0
        self._rows, self._weights = np.empty((0, target.columns)), np.empty(0)
        self._priorities, self._next = np.empty(0), 0.0

    def add(self, rows: Matrix, weights: Vector | None = None) -> None:
        """One block of all events; weights (n,) are not below 0."""
        density = Density(self._target, rows, weights=weights)
        self._gradient += density.likelihood_gradient(self._anchor[None])[0]
        each = np.ones(len(rows)) if weights is None else weights
        self._total, self._n = self._total + float(each.sum()), self._n + len(rows)
        priorities = np.concatenate([self._priorities, each / (1 - self._rng.random(len(rows)))])
        joined, weighed = np.concatenate([self._rows, rows]), np.concatenate([self._weights, each])
        if len(priorities) > self._held:
            order = np.argpartition(-priorities, self._held)
            self._next = max(self._next, float(priorities[order[self._held]]))
            order = np.sort(order[: self._held])
            joined, weighed, priorities = joined[order], weighed[order], priorities[order]
        self._rows, self._weights, self._priorities = joined, weighed, priorities

    def finish(self) -> Anchored:
        """The score of all rows that were added."""
        counted = self._weights > 0
        weights, tau = self._weights[counted], self._next
        scales = np.maximum(weights, tau)
        factor = self._total / scales.sum() if len(scales) else 1.0
        variances = factor**2 * tau * np.maximum(tau - weights, 0.0)
        if tau > 0 and (weights == weights[:1]).all():
            # tau is then random though the scale N/m is not: the exact variance of a subset without replacement.
            scale = self._total / len(weights)
            variances = np.full(len(weights), scale * (scale - weights[0]) * len(weights) / (len(weights) - 1))
        # In random order, so that every g-th row is a random part.
        order = self._rng.permutation(len(weights))
        return Anchored(
            self._target,
            self._anchor,
            self._gradient.copy(),
            self._rows[counted][order],
            (factor * scales)[order],
            variances[order],
            self._n,
        )
