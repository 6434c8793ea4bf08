"""Links: log f of the margin of a 0/1 event, with its first two derivatives."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import erfcx

Array = NDArray[np.float64]


class Values(NamedTuple):
    """log f(z), its slope f'/f > 0, and minus its second derivative, each in the shape of z."""

    log: Array
    slope: Array
    bend: Array


class Link(Protocol):
    """P(y | a) = f(z) for the margin z, log-concave and rising."""

    def __call__(self, z: Array) -> Values: ...


def logistic(z: Array) -> Values:
    """f = sigmoid."""
    small = np.exp(-np.abs(z))
    below = 1 / (1 + small)
    slope = np.where(z > 0, small, 1.0) * below
    return Values(np.minimum(z, 0.0) - np.log1p(small), slope, small * below * below)


def probit(z: Array) -> Values:
    """f = Phi, the normal distribution function: slope r = phi / Phi and bend r (r + z), stable in both tails."""
    tail = erfcx(np.minimum(-z * _ROOT_HALF, _LARGEST))
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        # Phi(z) = exp(-z^2 / 2) erfcx(-z / sqrt 2) / 2; for z far above 0 erfcx is infinite, and r is 0.
        half = np.minimum(0.5 * z * z, 1e300)
        log = np.where(z > _CERTAIN, 0.0, np.minimum(np.log(0.5 * tail) - half, 0.0))
        slope = np.where(z > _CERTAIN, 0.0, _PEAK_RATIO / tail)
        far = 1 / np.maximum(z * z, 1.0)
        bend = np.where(z < _FAR, 1 - far * (1 - 6 * far), slope * (slope + z))
    return Values(log, slope, np.maximum(bend, 0.0))


_ROOT_HALF: Final = np.sqrt(0.5)
_PEAK_RATIO: Final = np.sqrt(2 / np.pi)
_CERTAIN: Final = 37.0
"""Above this margin 1 - Phi is below the smallest number."""
_FAR: Final = -1e3
"""Below this margin slope + z has lost too many digits; 1 - 1/z^2 + 6/z^4 has all of them."""
_LARGEST: Final = 1e150
