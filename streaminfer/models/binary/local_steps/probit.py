"""The sites of probit events: the Gaussian factors that stand for Phi(s w · x) in the posterior of the weights.

A site is the Gaussian with which the product of the other factors has the mean and variance of that product with Phi
(Minka 2001; Rasmussen & Williams 2006, section 3.6). Each depends on those before it, so events are taken one by one.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streaminfer.families import matrices
from streaminfer.models.binary.gaussian_weights import DiagonalWeights, FullWeights
from streaminfer.models.model import Matrix, Vector

_CERTAIN: Final = 39.0
"""Above this phi / Phi is below the smallest number."""
_TAIL: Final = -4.0
_TERMS: Final = 32
"""Terms of the continued fraction; from the tail on they are exact in float64."""
_ROOT_2: Final = math.sqrt(2)
_PEAK: Final = 1 / math.sqrt(2 * math.pi)
_LEFT: Final = 1e-10
"""A cavity with less than this part of the precision has lost its digits: its event keeps the site it has."""


class Ratios(NamedTuple):
    """At z: v = phi / Phi, w = v (v + z), 1 - w and 1 + z (v + z), each without cancellation.

    v and w are the functions of adPredictor: the shift of the mean and the part of the variance that is lost.
    """

    v: float
    w: float
    kept: float
    bend: float


def ratios(z: float) -> Ratios:
    """In the tail by v = x + 1/(x + 2/(x + 3/(x + ...))), x = -z (Laplace's continued fraction)."""
    if z > _CERTAIN:
        return Ratios(0.0, 0.0, 1.0, 1.0)
    if z > _TAIL:
        v = _PEAK * math.exp(-0.5 * z * z) / (0.5 * math.erfc(-z / _ROOT_2))
        w = v * (v + z)
        return Ratios(v, w, 1 - w, 1 + z * (v + z))
    x = -z
    # What the fraction goes on with is near the r with r = x + terms / r.
    rest = 0.5 * (x + math.hypot(x, 2 * math.sqrt(_TERMS)))
    for k in range(_TERMS, 2, -1):
        rest = x + k / rest
    second = 2 / rest
    above = 1 / (x + second)
    bend = second * above
    kept = bend - above * above
    return Ratios(x + above, 1 - kept, kept, bend)


def full(base: FullWeights, rows: Matrix, signs: Vector, times: Vector, sweeps: int) -> Vector:
    """The sum of the sites of rows (n, d) as a change of (linear, matrix); `times` are the powers of the sites.

    A site is exp(h a - t a^2 / 2), a = w · x. Every sweep starts from the posterior of all sites anew.
    """
    linear, precision = [0.0] * len(rows), [0.0] * len(rows)
    change = np.zeros(base.statistics.size)
    for _ in range(sweeps):
        q = FullWeights.of(base.prior, base.statistics + change)
        _sweep_full(q, rows, signs.tolist(), times.tolist(), linear, precision)
        curved = np.sqrt(precision)[:, None] * rows
        change = np.concatenate([np.array(linear) @ rows, (curved.T @ curved).ravel()])
    return change


def _sweep_full(
    q: FullWeights, rows: Matrix, signs: list[float], times: list[float], linear: list[float], precision: list[float]
) -> None:
    """Replaces each site in its turn: mean and a root C of the covariance C C' change by rank one, O(d^2).

    A root keeps every variance positive (Potter's update): C (I - g f f'), f = C'x, with
    (I - g f f')^2 = I - k f f', k = t / (1 + t f'f) for a change of the site's precision by t.
    """
    mean, root = q.mean.copy(), matrices.solve_lower_transposed(q.factor, np.eye(q.mean.size))
    for i, x in enumerate(rows):
        half = x @ root
        variance, centre = float(half @ half), float(x @ mean)
        old_h, old_t = linear[i], precision[i]
        left = 1 - old_t * variance
        if left < _LEFT:
            continue
        cavity = variance / left
        h, t = _site(centre + cavity * (old_t * centre - old_h), cavity, signs[i])
        h, t = times[i] * h, times[i] * t
        across, more, below = root @ half, t - old_t, 1 + (t - old_t) * variance
        mean += ((h - old_h - more * centre) / below) * across
        root -= (more / (below + math.sqrt(below)) * across)[:, None] * half
        linear[i], precision[i] = h, t


def _site(mean: float, variance: float, sign: float) -> tuple[float, float]:
    """(h, t) for a cavity a ~ N(mean, variance): t = w / (1 + variance (1 - w)), h = (s v r + mean w) / the same.

    With r^2 = 1 + variance and z = s mean / r, s v r + mean w = s r v (1 + z (v + z)).
    """
    r = math.sqrt(1 + variance)
    v, w, kept, bend = ratios(sign * mean / r)
    below = 1 + variance * kept
    return sign * r * (v * bend) / below, w / below


def diagonal(base: DiagonalWeights, rows: Matrix, signs: Vector, times: Vector, sweeps: int) -> Vector:
    """The sum of the sites of rows (n, d) as a change of (linear, precisions): a site has a factor for each weight."""
    before = np.stack([base.prior.precision * base.prior.mean, base.prior.precision])
    before += base.statistics.reshape(2, -1)
    total = before.copy()
    sites = np.zeros((len(rows), *before.shape)) if sweeps > 1 else None
    change = np.zeros(before.shape)
    turns = list(zip(rows, rows**2, signs.tolist(), times.tolist(), strict=True))
    for _ in range(sweeps):
        for i, (x, squares, sign, power) in enumerate(turns):
            linear, precision = total
            if sites is not None:
                # The cavity has the base in it, whatever rounding leaves of the difference.
                linear, precision = linear - sites[i, 0], np.maximum(precision - sites[i, 1], before[1])
            site = power * _factorised(linear / precision, precision, x, squares, sign)
            if sites is None:
                change += site
                total += site
            else:
                sites[i] = site
                total = np.stack([linear, precision]) + site
        if sites is not None:
            change = sites.sum(axis=0)
            total = before + change
    return change.ravel()


def _factorised(mean: Vector, precision: Vector, x: Vector, squares: Vector, sign: float) -> Matrix:
    """(h, t) (2, d) for a cavity with independent weights.

    With u_i = x_i^2 / precision_i, whose sum is the variance of a, and m_i = mean_i x_i:
    t_i = x_i^2 w / below_i, h_i = x_i (s r v (1 + z (v + z)) - w (sum of m - m_i)) / below_i,
    below_i = 1 + (sum of u - u_i) + u_i (1 - w).
    """
    u, m = squares / precision, mean * x
    variance, centre = float(u.sum()), float(m.sum())
    r = math.sqrt(1 + variance)
    v, w, kept, bend = ratios(sign * centre / r)
    below = 1 + np.maximum(variance - u, 0.0) + kept * u
    site = np.empty((2, x.size))
    site[0] = x * (sign * r * (v * bend) - w * (centre - m)) / below
    site[1] = w * squares / below
    return site
