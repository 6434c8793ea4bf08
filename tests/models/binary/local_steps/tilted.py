"""The density N(z; m, v) f(z)^p by brute force: composite Gauss and Legendre around its mode and around 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

Function = Callable[[np.ndarray], np.ndarray]


class Derivatives(NamedTuple):
    """log f, its slope and minus its second derivative, by scipy."""

    log: Function
    slope: Function
    bend: Function


def _hazard(z: np.ndarray) -> np.ndarray:
    """phi / Phi: by erfcx, which neither overflows nor vanishes below 0."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.sqrt(2 / np.pi) / special.erfcx(-z / np.sqrt(2))


LINKS: Mapping[str, Derivatives] = {
    "logistic": Derivatives(
        special.log_expit, lambda z: special.expit(-z), lambda z: special.expit(z) * special.expit(-z)
    ),
    "probit": Derivatives(special.log_ndtr, _hazard, lambda z: _hazard(z) * (_hazard(z) + z)),
}


class Expectations(NamedTuple):
    """Under the density: the log of its sum, the means of log f, slope and bend, the variance of the slope, mean and
    variance of z."""

    log: float
    slope: float
    bend: float
    spread: float
    mean: float
    variance: float


def expectations(link: Derivatives, mean: float, deviation: float, power: float, times: float = 1.0) -> Expectations:
    """`power` 0 is the Gaussian alone; what is averaged counts `times`."""
    end = mean + deviation**2 * power * float(link.slope(np.array(mean))) + 1e-9 * (1 + abs(mean))
    mode = optimize.brentq(
        lambda z: power * link.slope(np.array(z)) * deviation - (z - mean) / deviation,
        mean - 1e-9 * (1 + abs(mean)), end, xtol=1e-13, rtol=1e-14,
    )  # fmt: skip
    # A Gaussian alone has fallen to nothing after 14 deviations; the product with f is narrower.
    edges = np.concatenate([mode + deviation * np.linspace(-14, 14, 225), np.linspace(-60, 60, 241)])
    edges = np.unique(edges[np.abs(edges - mode) <= 14 * deviation])
    nodes, weights = np.polynomial.legendre.leggauss(40)
    half = 0.5 * np.diff(edges)[:, None]
    z, widths = (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    log_density = power * link.log(z) - 0.5 * ((z - mean) / deviation) ** 2
    density = widths * np.exp(log_density - log_density.max())
    density /= density.sum()
    slope = float(density @ link.slope(z))
    centre = float(density @ (z - mode))
    return Expectations(
        times * float(density @ link.log(z)), times * slope, times * float(density @ link.bend(z)),
        times**2 * float(density @ (link.slope(z) - slope) ** 2), mode + centre,
        float(density @ (z - mode - centre) ** 2),
    )  # fmt: skip
