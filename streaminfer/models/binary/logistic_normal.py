"""The mean of a logistic function of a Gaussian number, in closed form up to rounding.

For mean -k <= 0 and deviation s, E[sigmoid(a)] = Phi(-k/s) + integral over a > 0 of (N(a; k) - N(a; -k)) / (1 + e^a).
With 1 / (1 + e^a) = z / (1 + z), z = e^-a in [0, 1], and a polynomial for 1 / (1 + z), the integral is a sum of those
of e^(-b a) N(a; k), which are known. All terms that matter are positive, so digits are kept far into the tail.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.polynomial import chebyshev

from streaminfer.families.special import erfcx
from streaminfer.models.model import Vector

_DEGREE: Final = 20
"""The polynomial's relative error is near (3 + sqrt 8)^-degree, below 1e-15 here."""

_ROOT_HALF: Final = np.sqrt(0.5)
_SMALLEST: Final = 1e-100
"""A deviation below this is as good as none."""


def _coefficients() -> Vector:
    """c with 1 / (1 + z) = sum of c_j z^j on [0, 1]: by interpolation in Chebyshev points; they alternate in sign."""
    series = chebyshev.Chebyshev.interpolate(lambda z: 1 / (1 + z), _DEGREE, domain=[0.0, 1.0])
    return np.asarray(series.convert(kind=np.polynomial.Polynomial).coef, dtype=np.float64)


_COEFFICIENTS: Final = _coefficients()


def log_mean_sigmoid(means: Vector, deviations: Vector) -> Vector:
    """log E[1 / (1 + e^-a)] for a ~ N(mean, deviation^2), elementwise (n,)."""
    lower = _log_lower(np.abs(means), np.maximum(deviations, _SMALLEST))
    # log1p(-p) is 0 if 1 - p rounds to 1, as it should be.
    return np.where(means <= 0, lower, np.log1p(-np.exp(lower)))


def _log_lower(k: Vector, s: Vector) -> Vector:
    """The same for means -k <= 0.

    The integral of e^(-b a) N(a; k) over a > 0 is e^(b^2 s^2 / 2 - b k) Phi(t), t = k/s - b s, which is also
    e^(-k^2 / 2 s^2) erfcx(-t / sqrt 2) / 2. The first is used for t > 0, relative to its value without Phi at b = 1.
    """
    b = np.arange(1.0, _COEFFICIENTS.size + 1)[:, None]
    with np.errstate(over="ignore"):
        ratio = k / s
        top, t = -0.5 * ratio**2, ratio - b * s
        reference = np.where(ratio > s, s * (0.5 * s - ratio), top)
        base = np.exp(top - reference)
        inside = np.where(t > 0, t, 0.0)
        # b s (b s / 2 - k / s) - s (s / 2 - k / s), which is at most 0 if t > 0.
        exponent = np.where(t > 0, (b - 1) * s * (0.5 * (b + 1) * s - ratio), 0.0)
        above = np.exp(exponent) * (2 - np.exp(-0.5 * inside**2) * erfcx(_ROOT_HALF * inside))
        below = base * erfcx(_ROOT_HALF * np.where(t > 0, 0.0, -t))
        near = np.where(t > 0, above, below)
        far = base * erfcx(_ROOT_HALF * (ratio + b * s))
    total = base * erfcx(_ROOT_HALF * ratio) + _COEFFICIENTS @ (near - far)
    return np.asarray(reference + np.log(0.5 * total), dtype=np.float64)
