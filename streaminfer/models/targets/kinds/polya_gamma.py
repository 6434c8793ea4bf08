"""Exact draws from the Pólya–Gamma distribution PG(1, c), many at once.

Devroye's alternating series for Jacobi's distribution J*, as Polson, Scott & Windle (2013, section 4) tell it:
PG(1, c) = J*(1, |c| / 2) / 4. A proposal is an exponential right of `_EDGE`, an inverse Gaussian left of it.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import log_ndtr
from streaminfer.models.model import Flags, Vector

_EDGE: Final = 0.64
_SMALLEST: Final = 1e-300


def sample(c: Vector, rng: np.random.Generator) -> Vector:
    """One draw for each c (n,): mean tanh(c / 2) / (2 c)."""
    z = 0.5 * np.abs(c)
    found, left = np.empty(len(z)), np.arange(len(z))
    right = _mass_right(z)
    while len(left):
        at = z[left]
        proposed = np.empty(len(left))
        far = rng.random(len(left)) < right[left]
        rate = 0.125 * math.pi**2 + 0.5 * at[far] ** 2
        proposed[far] = _EDGE + rng.standard_exponential(len(rate)) / rate
        proposed[~far] = _inverse_gaussian(at[~far], rng)
        accepted = _accepted(proposed, rng)
        found[left[accepted]] = proposed[accepted]
        left = left[~accepted]
    return 0.25 * found


def _mass_right(z: Vector) -> Vector:
    """p / (p + q): the part of the proposal's mass that is right of the edge, by logs as both may be tiny."""
    rate = 0.125 * math.pi**2 + 0.5 * z**2
    log_p = math.log(0.5 * math.pi) - np.log(rate) - rate * _EDGE
    root = math.sqrt(_EDGE)
    below = -z + log_ndtr((_EDGE * z - 1) / root)
    above = z + log_ndtr(-(_EDGE * z + 1) / root)
    log_q = math.log(2) + np.logaddexp(below, above)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(1 / (1 + np.exp(log_q - log_p)), dtype=np.float64)


def _inverse_gaussian(z: Vector, rng: np.random.Generator) -> Vector:
    """Draws from an inverse Gaussian of mean 1 / z and shape 1, below the edge."""
    found, left = np.empty(len(z)), np.arange(len(z))
    while len(left):
        wide = z[left] < 1 / _EDGE
        drawn, accepted = np.empty(len(left)), np.empty(len(left), dtype=np.bool_)
        drawn[wide], accepted[wide] = _wide(z[left][wide], rng)
        drawn[~wide], accepted[~wide] = _narrow(z[left][~wide], rng)
        found[left[accepted]] = drawn[accepted]
        left = left[~accepted]
    return found


def _wide(z: Vector, rng: np.random.Generator) -> tuple[Vector, Flags]:
    """A mean beyond the edge: a Lévy draw below the edge, accepted with probability exp(-z^2 x / 2)."""
    e, f = rng.standard_exponential(len(z)), rng.standard_exponential(len(z))
    drawn = _EDGE / (1 + _EDGE * e) ** 2
    return drawn, (e * e <= 2 * f / _EDGE) & (rng.random(len(z)) <= np.exp(-0.5 * z * z * drawn))


def _narrow(z: Vector, rng: np.random.Generator) -> tuple[Vector, Flags]:
    """A mean below the edge: the draw of Michael, Schucany & Haas (1976), again if it is beyond the edge."""
    mean = 1 / z
    y = mean * rng.standard_normal(len(z)) ** 2
    drawn = mean * np.maximum(1 + 0.5 * y - 0.5 * np.sqrt(y * (4 + y)), _SMALLEST)
    other = rng.random(len(z)) > mean / (mean + drawn)
    drawn = np.where(other, mean * (mean / drawn), drawn)
    return drawn, drawn <= _EDGE


def _accepted(x: Vector, rng: np.random.Generator) -> Flags:
    """Whether u a_0(x) is below the alternating sum a_0 - a_1 + a_2 - ...: partial sums decide."""
    first = _coefficient(0, x)
    height, total = rng.random(len(x)) * first, first
    accepted, open_ = np.zeros(len(x), dtype=np.bool_), np.ones(len(x), dtype=np.bool_)
    n = 0
    while open_.any():
        n += 1
        total = total + (-1) ** n * _coefficient(n, x)
        if n % 2:
            accepted |= open_ & (height <= total)
            open_ &= height > total
        else:
            open_ &= height <= total
    return accepted


def _coefficient(n: int, x: Vector) -> NDArray[np.float64]:
    """a_n(x) of J*(1, 0), without the factor of a_0 that all have in common left of the edge."""
    half = n + 0.5
    with np.errstate(under="ignore"):
        # Left of the edge every a_n has (2 / (pi x))^(3/2) exp(-1 / (2 x)), which underflows for a small x.
        near = math.pi * half * np.exp(-2 * n * (n + 1) / x)
        far = math.pi * half * np.exp(-0.5 * (half * math.pi) ** 2 * x)
    return np.asarray(np.where(x <= _EDGE, near, far), dtype=np.float64)
