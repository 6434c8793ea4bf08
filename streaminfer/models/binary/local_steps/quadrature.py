"""Expectations of a link's derivatives under N(z; m, v), or under the tilted density N(z; m, v) f(z)^p.

There are three rules, by the deviation of the Gaussian. If the link is nearly a polynomial there, it is seven points of
Gauss and Hermite. Then come equal steps, whose error falls as exp(-2 pi^2 / step^2) for a Gaussian and
exp(-2 pi^2 / step) for the poles of a sigmoid. A wide Gaussian sees the link as an edge: it has panels of Gauss and
Legendre around 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.binary.local_steps.links import Link
from streaminfer.models.model import Matrix, Vector

NARROW: Final = 0.2
"""A deviation up to this: nodes of Gauss and Hermite."""
MIDDLE: Final = 1.0
"""And up to this: equal steps."""
_STEP: Final = 0.65
_DROP: Final = 40.0
"""Once a log density has fallen by this much, nothing beyond counts."""
LEAST: Final = 1e-200
"""A variance below this is as good as none."""
_EDGE: Final = 37.0
"""Further from 0 than this a link is a Gaussian or exponential function to the last digit."""


class Expected(NamedTuple):
    """Under the density: the means of p log f, its slope and bend, the variance of its slope, and that of z."""

    log: Vector
    slope: Vector
    bend: Vector
    spread: Vector
    variance: Vector


class Nodes(NamedTuple):
    """Places (n, k) and the logs of their weights."""

    z: Matrix
    log_weights: Matrix


def _hermite() -> tuple[Vector, Vector]:
    x, w = np.polynomial.hermite_e.hermegauss(7)
    return x, np.log(w) + 0.5 * x * x


_HERMITE: Final = _hermite()
_EQUAL: Final = (_STEP * np.arange(-11.0, 12.0), np.zeros(23))
_OUTER: Final = np.polynomial.legendre.leggauss(48)
_INNER: Final = np.polynomial.legendre.leggauss(16)
_PANELS: Final = 24


def expected(link: Link, means: Vector, variances: Vector, times: Vector, tilted: bool) -> Expected:
    """For margins z ~ N(means, variances), (n,) each, and events that count `times`; NaN if they leave float64."""
    with np.errstate(all="ignore"):
        return _by_width(link, means, variances, times, tilted)


def _by_width(link: Link, means: Vector, variances: Vector, times: Vector, tilted: bool) -> Expected:
    variances = np.maximum(variances, LEAST)
    deviations = np.sqrt(variances)
    found = Expected(*(np.empty(len(means)) for _ in range(5)))
    near = (deviations <= MIDDLE) & (times * variances * tilted <= 1)  # what counts often is far from its Gaussian
    groups = (
        (near & (deviations <= NARROW), _HERMITE),
        (near & (deviations > NARROW), _EQUAL),
        (~near, None),
    )
    for which, rule in groups:
        if not which.any():
            continue
        m, v, p = means[which], variances[which], times[which]
        nodes = _around(link, m, v, p * tilted, rule) if rule is not None else _panels(link, m, v, p * tilted)
        for whole, part in zip(found, _summed(link, nodes, m, v, p, tilted), strict=True):
            whole[which] = part
    return found


def _summed(link: Link, nodes: Nodes, m: Vector, v: Vector, p: Vector, tilted: bool) -> Expected:
    log, slope, bend = link(nodes.z)
    density = nodes.log_weights - 0.5 * ((nodes.z - m[:, None]) / np.sqrt(v)[:, None]) ** 2
    if tilted:
        density += p[:, None] * log
    weights = np.exp(density - density.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mean = np.einsum("nk,nk->n", weights, slope)
    around = slope - mean[:, None]
    centre = np.einsum("nk,nk->n", weights, nodes.z - m[:, None])
    variance = np.einsum("nk,nk->n", weights, (nodes.z - m[:, None] - centre[:, None]) ** 2)
    spread = np.einsum("nk,nk->n", weights, around * around)
    level = np.einsum("nk,nk->n", weights, log)
    return Expected(p * level, p * mean, p * np.einsum("nk,nk->n", weights, bend), p * p * spread, variance)


def _around(link: Link, m: Vector, v: Vector, p: Vector, rule: tuple[Vector, Vector]) -> Nodes:
    """Nodes around the mode of a density that is nearly Gaussian: two steps of Newton come close enough."""
    centre, variance = m, v
    if p.any():
        for _ in range(2):
            _, slope, bend = link(centre)
            variance = v / (1 + v * p * bend)
            centre = centre + variance * (p * slope - (centre - m) / v)
    places, log_weights = rule
    return Nodes(
        centre[:, None] + np.sqrt(variance)[:, None] * places, np.broadcast_to(log_weights, (len(m), len(places)))
    )


def _panels(link: Link, m: Vector, v: Vector, p: Vector) -> Nodes:
    """Nodes for a density that may be wide: beyond the edge on both sides, and in panels across it."""
    mode = _mode(link, m, v, p)
    low, high = (mode + side * _reach(link, m, v, p, mode, side) for side in (-1.0, 1.0))
    left, right = np.clip(-_EDGE, low, high), np.clip(_EDGE, low, high)
    inner = left[:, None] + (right - left)[:, None] * np.linspace(0, 1, _PANELS + 1)
    parts = [_legendre(low, left, _OUTER), _legendre(right, high, _OUTER)]
    parts += [_legendre(inner[:, i], inner[:, i + 1], _INNER) for i in range(_PANELS)]
    return Nodes(np.hstack([part.z for part in parts]), np.hstack([part.log_weights for part in parts]))


def _legendre(low: Vector, high: Vector, rule: tuple[Vector, Vector]) -> Nodes:
    x, w = rule
    half = 0.5 * (high - low)[:, None]
    return Nodes(low[:, None] + half * (1 + x), np.log(half) + np.log(w))


def _mode(link: Link, m: Vector, v: Vector, p: Vector) -> Vector:
    """The root of p f' - (z - m) / v, which falls: by halving, on a scale that is even near 0 and logarithmic far off.

    The slope is positive and falls, so the root is between m and m + v p f'(m).
    """
    low, high = np.arcsinh(m), np.arcsinh(m + v * p * link(m).slope)
    for _ in range(60):
        middle = 0.5 * (low + high)
        z = np.sinh(middle)
        rising = p * link(z).slope > (z - m) / v
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.asarray(np.sinh(0.5 * (low + high)), dtype=np.float64)


def _reach(link: Link, m: Vector, v: Vector, p: Vector, mode: Vector, side: float) -> Vector:
    """How far from the mode the log density has fallen by _DROP; a Gaussian of variance v bounds it."""
    deviation = np.sqrt(v)

    def log_density(z: Vector) -> Vector:
        return np.asarray(p * link(z).log - 0.5 * ((z - m) / deviation) ** 2, dtype=np.float64)

    top = log_density(mode)
    low, high = np.log(1e-3 * deviation / (1 + deviation + v) / np.sqrt(1 + p)), 0.5 * np.log(2 * _DROP * v)
    for _ in range(40):
        middle = 0.5 * (low + high)
        inside = top - log_density(mode + side * np.exp(middle)) < _DROP
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.asarray(np.exp(high), dtype=np.float64)
