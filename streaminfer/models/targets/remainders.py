"""Certified bounds on what a Taylor expansion leaves out of f(row · theta), by derivative bounds of f.

The remainder of order k at an anchor changes between theta and theta' by at most c_n M: the scale c_n of a row is
K norm(row)^(k + 1) with K the bound of the derivative of order k + 1, and M depends on three distances alone. Norms may
be of other coordinates u = R^-1 theta: then rows are R' row, and distances are those of u.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets import parts
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.target import Bounded

Array = NDArray[np.float64]


def orders(target: Bounded) -> tuple[int, ...]:
    """The orders of expansions whose remainders are bounded."""
    return tuple(order for order, bound in enumerate(target.derivative_bounds) if bound is not None)


def scales(target: Bounded, rows: Matrix, order: int, root: Matrix | None = None) -> Vector:
    """c_n of each row (n, d): K norm(R' row)^(order + 1), (n,)."""
    bound = target.derivative_bounds[order]
    if bound is None:
        raise ValueError(f"{type(target).__name__} has no bound for expansions of order {order}: use {orders(target)}")
    found = np.empty(len(rows))
    for each in parts.slices(rows):
        part = rows[each] if root is None else rows[each] @ root
        found[each] = bound * np.sqrt(np.einsum("nd,nd->n", part, part)) ** (order + 1)
    return found


def remainder(order: int, distance: float | Array) -> Array:
    """The remainder itself is at most c_n times this, `distance` from the anchor: distance^(k + 1) / (k + 1)!."""
    factorial = (1.0, 2.0, 6.0)[order]
    return np.asarray(np.asarray(distance) ** (order + 1) / factorial, dtype=np.float64)


def change(order: int, before: float | Array, after: float | Array, between: float | Array) -> Array:
    """M: `before` and `after` are distances from the anchor, `between` is that of the two places.

    Order 0: between; 1: max · between; 2: the less of max^2 · between / 2 and (before^3 + after^3) / 6.
    """
    furthest = np.maximum(before, after)
    if order == 0:
        return np.asarray(between, dtype=np.float64)
    if order == 1:
        return np.asarray(furthest * between, dtype=np.float64)
    return np.minimum(0.5 * furthest**2 * between, remainder(2, before) + remainder(2, after))


class Expansion(NamedTuple):
    """Taylor's expansion of the log likelihood of all rows: value, gradient (d,) and second derivatives (d, d)."""

    order: int
    anchor: Vector
    value: float
    gradient: Vector
    second: Matrix

    def __call__(self, theta: Matrix) -> Vector:
        """The expansion of the sum at each theta (k, d), (k,)."""
        away = theta - self.anchor
        total = np.full(len(theta), self.value)
        if self.order > 0:
            total = total + away @ self.gradient
        if self.order > 1:
            total = total + 0.5 * np.einsum("ki,ij,kj->k", away, self.second, away)
        return total

    def change(self, before: Vector, after: Vector) -> float:
        """Its value at `after` (d,) less that at `before`, without the cancellation of two large sums."""
        slope = self.gradient if self.order > 0 else np.zeros(len(before))
        if self.order > 1:
            slope = slope + self.second @ (0.5 * (before + after) - self.anchor)
        return float((after - before) @ slope)


def expansion(density: Density, anchor: Vector, order: int) -> Expansion:
    """Of the log likelihood, without the prior, at an anchor (d,): one pass over all rows."""
    d = len(anchor)
    value = float(density.log_likelihood(anchor[None])[0])
    gradient, second = np.zeros(d), np.zeros((d, d))
    if order > 0:
        gradient = density.likelihood_gradient(anchor[None])[0]
    if order > 1:
        second = second_derivatives(density, anchor)
    return Expansion(order, anchor.copy(), value, gradient, second)


def second_derivatives(density: Density, theta: Vector) -> Matrix:
    """Those of the log likelihood of all rows at theta (d,), (d, d)."""
    none = np.zeros((len(theta),) * 2)
    found = -sum((density.target.curvature(theta, part) for part in density.blocks()), none)
    return np.asarray(found, dtype=np.float64)


def expanded(target: Bounded, order: int, anchor: Vector, theta: Matrix, rows: Matrix) -> Matrix:
    """The expansion of each row at each theta (k, d): (k, n)."""
    log, slope, bend = target.ascent(rows @ anchor)
    away = (theta - anchor) @ rows.T
    total = np.broadcast_to(log, away.shape)
    if order > 0:
        total = total + slope * away
    if order > 1:
        total = total - 0.5 * bend * away * away
    return np.asarray(total, dtype=np.float64)
