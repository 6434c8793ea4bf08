"""The mode of Gaussian weights given events, by Newton's method with a line search.

In coordinates u the base is standard normal. There the objective |u|^2 / 2 - sum of p log f(z) is strongly convex,
whatever the units of the features.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streaminfer.families import matrices
from streaminfer.models.binary.local_steps.links import Link, Values
from streaminfer.models.conjugate import roots
from streaminfer.models.model import Matrix, Vector

STEPS: Final = 50
SETTLED: Final = 1e-10
"""Newton's decrement g' H^-1 g below which nothing is left to do: 1e-5 posterior deviations."""
_HALVINGS: Final = 40
_ENOUGH: Final = 1e-4
"""The part of the gain that a line expects, which a step must bring (Armijo)."""
_ROUNDING: Final = 1e-12
_PLAIN: Final = 1e12
"""Sums of squares up to this are factored with the digits that their squares have left."""


class Mode(NamedTuple):
    """The mode u (d,); the margins z = start + B u of the events there and what the link says of them.

    `left` (d,) is the step of Newton's that was too small to be taken: with it u is the mean of the tangent Gaussians.
    """

    u: Vector
    margins: Vector
    values: Values
    converged: bool
    left: Vector


def find(link: Link, start: Vector, B: Matrix, times: Vector, u: Vector | None = None) -> Mode:
    """The mode for margins z = start + B u, B (n, d), of events that count `times` (n,); begins at `u`, else at 0."""
    with np.errstate(all="ignore"):  # features of 1e100: what leaves float64 has not converged
        return _find(link, start, B, times, np.zeros(B.shape[1]) if u is None else u)


def _find(link: Link, start: Vector, B: Matrix, times: Vector, u: Vector) -> Mode:
    margins = start + B @ u
    values = link(margins)
    value = 0.5 * float(u @ u) - float(times @ values.log)
    for _ in range(STEPS):
        step, decrement = _newton(B, times * values.bend, u - (times * values.slope) @ B)
        if not decrement > SETTLED:
            settled = decrement <= SETTLED
            return Mode(u, margins, values, settled, step if settled else np.zeros_like(u))
        length = 1.0
        for _ in range(_HALVINGS):
            after = u + length * step
            margins = start + B @ after
            values = link(margins)
            reached = 0.5 * float(after @ after) - float(times @ values.log)
            if reached <= value - _ENOUGH * length * decrement + _ROUNDING * abs(value):
                break
            length *= 0.5
        else:
            break  # no step is short enough to gain anything that float64 could tell
        u, value = after, reached
    return Mode(u, margins, values, converged=False, left=np.zeros_like(u))


def variances(B: Matrix, curves: Vector) -> Vector:
    """The variances of margins (n,) under N(0, (I + B' diag(curves) B)^-1)."""
    half = matrices.solve_lower(_factor(B, curves), B.T)
    return np.asarray(np.einsum("dn,dn->n", half, half), dtype=np.float64)


def _newton(B: Matrix, curves: Vector, gradient: Vector) -> tuple[Vector, float]:
    """-H^-1 g and g' H^-1 g for H = I + B' diag(curves) B, by the smaller of H and its counterpart of the events."""
    n, d = B.shape
    if n >= d:
        factor = _factor(B, curves)
        half = matrices.solve_lower(factor, gradient)
        return -matrices.solve_lower_transposed(factor, half), float(half @ half)
    C = np.sqrt(curves)[:, None] * B
    factor = _factor(C.T, np.ones(d))
    inner = matrices.solve_lower_transposed(factor, matrices.solve_lower(factor, C @ gradient))
    step = C.T @ inner - gradient
    return step, -float(gradient @ step)


def _factor(B: Matrix, curves: Vector) -> Matrix:
    """The lower L with L L' = I + B' diag(curves) B."""
    curved = np.sqrt(curves)[:, None] * B
    d = B.shape[1]
    if float(np.einsum("nd,nd->", curved, curved)) <= _PLAIN:
        return matrices.cholesky(np.eye(d) + curved.T @ curved)
    return roots.triangle(np.vstack([curved, np.eye(d)])).T
