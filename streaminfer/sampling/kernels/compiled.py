"""Blocks of stochastic-gradient steps as machine code, for targets whose events are margins. Needs numba.

Plain loops, as numba wants them. Rows of a minibatch are far apart in memory. So several are read at a time, and the
processor waits for all of them at once. When they are summed they are in its cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.gradients.minibatches import Indices

F = TypeVar("F", bound=Callable[..., Any])
_TAIL: Final = -4.0
_TERMS: Final = 32
_ROOT_2: Final = math.sqrt(2)
_PEAK: Final = 1 / math.sqrt(2 * math.pi)


def jit(function: F) -> F:
    """Compiled at the first call, and kept where numba can write. Sums may be taken in any order."""
    # Infinity and NaN mean something here, so "ninf" and "nnan" are not among these.
    options: Any = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}, "nogil": True}
    try:
        made = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no place to keep it
        made = numba.njit(**options)(function)
    return cast(F, made)


@jit
def slope(link: int, z: float) -> float:
    """f' of a margin: sigmoid(-z), or phi / Phi by erfc and, in the tail, by Laplace's continued fraction."""
    if link == 0:
        return 1.0 / (1.0 + math.exp(z))
    if z > _TAIL:
        return _PEAK * math.exp(-0.5 * z * z) / (0.5 * math.erfc(-z / _ROOT_2))
    rest = 0.5 * (-z + math.hypot(z, 2 * math.sqrt(_TERMS)))
    for k in range(_TERMS, 0, -1):
        rest = -z + k / rest
    return rest


@jit
def dots(rows: Matrix, batch: Indices, theta: Vector, margins: Vector) -> None:
    """row · theta of each row of a minibatch, eight rows at a time."""
    size, d, b = len(batch), len(theta), 0
    while b + 8 <= size:
        i, j, k, m = batch[b], batch[b + 1], batch[b + 2], batch[b + 3]
        p, q, r, s = batch[b + 4], batch[b + 5], batch[b + 6], batch[b + 7]
        at_i = at_j = at_k = at_m = at_p = at_q = at_r = at_s = 0.0
        for c in range(d):
            x = theta[c]
            at_i += rows[i, c] * x
            at_j += rows[j, c] * x
            at_k += rows[k, c] * x
            at_m += rows[m, c] * x
            at_p += rows[p, c] * x
            at_q += rows[q, c] * x
            at_r += rows[r, c] * x
            at_s += rows[s, c] * x
        margins[b], margins[b + 1], margins[b + 2], margins[b + 3] = at_i, at_j, at_k, at_m
        margins[b + 4], margins[b + 5], margins[b + 6], margins[b + 7] = at_p, at_q, at_r, at_s
        b += 8
    for last in range(b, size):
        at = 0.0
        for c in range(d):
            at += rows[batch[last], c] * theta[c]
        margins[last] = at


@jit
def weighted(rows: Matrix, batch: Indices, weights: Vector, total: Vector) -> None:
    """The sum of weight · row."""
    size, d, b = len(batch), len(total), 0
    total[:] = 0.0
    while b + 4 <= size:
        i, j, k, m = batch[b], batch[b + 1], batch[b + 2], batch[b + 3]
        u, v, w, x = weights[b], weights[b + 1], weights[b + 2], weights[b + 3]
        for c in range(d):
            total[c] += u * rows[i, c] + v * rows[j, c] + w * rows[k, c] + x * rows[m, c]
        b += 4
    for last in range(b, size):
        for c in range(d):
            total[c] += weights[last] * rows[batch[last], c]


@jit
def gradient(
    rows: Matrix,
    link: int,
    batch: Indices,
    theta: Vector,
    base: Vector,
    slopes: Vector,
    mean: Vector,
    precision: Vector,
    margins: Vector,
    found: Vector,
) -> None:
    """precision (mean - theta) + base + N/B sum of (slope - slope at the anchor) row, into `found` (d,)."""
    dots(rows, batch, theta, margins)
    if len(slopes) > 0:
        for b in range(len(batch)):
            margins[b] = slope(link, margins[b]) - slopes[batch[b]]
    else:
        for b in range(len(batch)):
            margins[b] = slope(link, margins[b])
    weighted(rows, batch, margins, found)
    scale = len(rows) / len(batch)
    for c in range(len(theta)):
        found[c] = precision[c] * (mean[c] - theta[c]) + base[c] + scale * found[c]


@jit
def product(matrix: Matrix, vector: Vector, found: Vector) -> None:
    """matrix @ vector; a matrix of one row stands for its diagonal."""
    d = len(vector)
    if len(matrix) < d:
        for i in range(d):
            found[i] = matrix[0, i] * vector[i]
        return
    for i in range(d):
        at = 0.0
        for j in range(d):
            at += matrix[i, j] * vector[j]
        found[i] = at


@jit
def is_finite(vector: Vector) -> bool:
    for value in vector:  # noqa: SIM110 (numba has no generators)
        if not math.isfinite(value):
            return False
    return True


@jit
def sgld(
    rows: Matrix,
    link: int,
    indices: Indices,
    base: Vector,
    slopes: Vector,
    mean: Vector,
    precision: Vector,
    matrix: Matrix,
    sizes: Vector,
    noise: Matrix,
    path: Matrix,
    undone: Indices,
) -> None:
    """Fills path[1:] from path[0]; `noise` has its deviation already. `undone` are (in a row, in all)."""
    d, margins = path.shape[1], np.empty(indices.shape[1])
    found, move = np.empty(d), np.empty(d)
    for t in range(len(indices)):
        theta, after = path[t], path[t + 1]
        gradient(rows, link, indices[t], theta, base, slopes, mean, precision, margins, found)
        product(matrix, found, move)
        for c in range(d):
            after[c] = theta[c] + 0.5 * sizes[t] * move[c] + noise[t, c]
        if is_finite(after):
            undone[0] = 0
        else:
            after[:] = theta
            undone[0] += 1
            undone[1] += 1


@jit
def sghmc(
    rows: Matrix,
    link: int,
    indices: Indices,
    base: Vector,
    slopes: Vector,
    mean: Vector,
    precision: Vector,
    matrix: Matrix,
    sizes: Vector,
    decays: Vector,
    noise: Matrix,
    velocity: Vector,
    path: Matrix,
    undone: Indices,
) -> None:
    """Kick, half a drift, friction and noise, half a drift. `velocity` is changed in place."""
    d, margins = path.shape[1], np.empty(indices.shape[1])
    found, move, kicked = np.empty(d), np.empty(d), np.empty(d)
    for t in range(len(indices)):
        theta, after, h = path[t], path[t + 1], sizes[t]
        gradient(rows, link, indices[t], theta, base, slopes, mean, precision, margins, found)
        product(matrix, found, move)
        for c in range(d):
            first = velocity[c] + h * move[c]
            kicked[c] = decays[t] * first + noise[t, c]
            after[c] = theta[c] + 0.5 * h * (first + kicked[c])
        if is_finite(after) and is_finite(kicked):
            velocity[:] = kicked
            undone[0] = 0
        else:
            after[:] = theta
            undone[0] += 1
            undone[1] += 1


@jit
def sgnht(
    rows: Matrix,
    link: int,
    indices: Indices,
    base: Vector,
    slopes: Vector,
    mean: Vector,
    precision: Vector,
    root: Matrix,
    root_transposed: Matrix,
    sizes: Vector,
    diffusion: float,
    noise: Matrix,
    momentum: Vector,
    thermostat: Vector,
    path: Matrix,
    undone: Indices,
) -> None:
    """As `sghmc` with a friction of each coordinate's own; momentum and thermostat are changed in place."""
    d, margins = path.shape[1], np.empty(indices.shape[1])
    found, move = np.empty(d), np.empty(d)
    kicked, warmth = np.empty(d), np.empty(d)
    for t in range(len(indices)):
        theta, after, h = path[t], path[t + 1], sizes[t]
        gradient(rows, link, indices[t], theta, base, slopes, mean, precision, margins, found)
        product(root_transposed, found, move)
        for c in range(d):
            first = momentum[c] + h * move[c]
            friction = thermostat[c] + 0.5 * h * (first * first - 1)
            drop = math.expm1(-friction * h)
            spread = -drop * (2 + drop) / friction if friction != 0 else 2 * h
            second = (1 + drop) * first + math.sqrt(diffusion * spread) * noise[t, c]
            kicked[c] = second
            warmth[c] = friction + 0.5 * h * (second * second - 1)
            found[c] = 0.5 * h * (first + second)
        product(root, found, move)
        for c in range(d):
            after[c] = theta[c] + move[c]
        if is_finite(after) and is_finite(kicked) and is_finite(warmth):
            momentum[:] = kicked
            thermostat[:] = warmth
            undone[0] = 0
        else:
            after[:] = theta
            undone[0] += 1
            undone[1] += 1
