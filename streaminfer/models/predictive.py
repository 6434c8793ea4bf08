"""Predictive densities and intervals of the conjugate models, stable if the parameters are large."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import betainc, betaincc, gammaln, ndtri, stdtrit
from streaminfer.models.model import Predictions, Vector

_STIRLING_FROM: Final = 64.0
"""From here four terms of Stirling's series are exact in float64."""

SMOOTH: Final = 1e10
"""Counts with a mean and a shape above this are as good as continuous."""
_DIGITS: Final = 1e-12
"""Quantiles of counts are whole numbers, or right to this part of themselves."""


def log_rising(a: float, k: Vector) -> Vector:
    """log Gamma(a + k) - log Gamma(a) for k >= 0, elementwise, without the cancellation of a large a.

    Stirling: (a - 1/2) log(1 + k/a) + k log(a + k) - k + s(a + k) - s(a), s(x) = 1/(12 x) - 1/(360 x^3) + ...
    """
    if a < _STIRLING_FROM:
        return np.asarray(gammaln(a + k) - gammaln(a), dtype=np.float64)
    correction = _stirling_tail(a + k) - _stirling_tail(np.asarray(a))
    return (a - 0.5) * np.log1p(k / a) + k * np.log(a + k) - k + correction


def log_negative_binomial(k: Vector, exposure: Vector, shape: float, rate: float) -> Vector:
    """log p(k), k ~ Poisson(exposure x), x ~ Gamma(shape, rate); all (n,).

    Gamma(shape + k) / (Gamma(shape) k!) (rate / (rate + exposure))^shape (exposure / (rate + exposure))^k.
    """
    none = -shape * np.log1p(exposure / rate)
    some = k * (np.log(exposure) - np.log(rate + exposure))
    log_density: Vector = log_rising(shape, k) - gammaln(k + 1) + none + some
    return log_density


def log_student_t(squares: Vector, dof: float, d: int, log_det: float | Vector) -> Vector:
    """log density of a d-variate t at squared Mahalanobis distances (n,); `log_det` is log|shape matrix|.

    Gamma((dof + d)/2) / (Gamma(dof/2) (dof pi)^(d/2) |shape|^(1/2)) (1 + square/dof)^(-(dof + d)/2).
    """
    constant = float(log_rising(0.5 * dof, np.asarray(0.5 * d))) - 0.5 * d * math.log(dof * math.pi)
    return constant - 0.5 * log_det - 0.5 * (dof + d) * np.log1p(squares / dof)


def student_t(location: NDArray[np.float64], scale: NDArray[np.float64], dof: float, level: float) -> Predictions:
    """Mean, sd and central interval of t numbers, elementwise; NaN for a moment that does not exist."""
    with np.errstate(over="ignore"):
        half = -stdtrit(dof, 0.5 * (1 - level)) * scale
        sd = scale * math.sqrt(dof / (dof - 2)) if dof > 2 else np.full_like(scale, np.nan)
    mean = location if dof > 1 else np.full_like(location, np.nan)
    return {"mean": mean, "sd": sd, "lower": location - half, "upper": location + half}


def negative_binomial(exposure: Vector, shape: float, rate: float, level: float) -> Predictions:
    """The same of counts k ~ Poisson(exposure x), x ~ Gamma(shape, rate); all (n,). Ends are counts in the interval."""
    different, places = np.unique(exposure, return_inverse=True)
    mean = different * (shape / rate)
    sd = np.sqrt(mean) * np.sqrt(1 + different / rate)
    tail = 0.5 * (1 - level)
    ends = {"lower": _counts(tail, different, shape, rate), "upper": _counts(1 - tail, different, shape, rate)}
    return {name: each[places] for name, each in {"mean": mean, "sd": sd, **ends}.items()}


def _counts(p: float, exposure: Vector, shape: float, rate: float) -> Vector:
    """The smallest counts k with P(at most k) >= p: by halving what lies between one below and one that is not.

    Starts from mean + sd (z + skewness (z^2 - 1) / 6), z the normal quantile; sd skewness is 1 + 2 ratio.
    """
    ratio = exposure / rate
    mean, sd = shape * ratio, np.sqrt(shape * ratio) * np.sqrt(1 + ratio)
    z = ndtri(p)
    guess: Vector = np.maximum(np.floor(mean + sd * z + (1 + 2 * ratio) * (z * z - 1) / 6), 0.0)
    if shape >= SMOOTH:
        smooth = mean >= SMOOTH
        rough = ratio[~smooth]
        guess[~smooth] = smallest(p, guess[~smooth], sd[~smooth], lambda k: _at_most(k, rough, shape))
        return guess
    return smallest(p, guess, sd, lambda k: _at_most(k, ratio, shape))


def smallest(p: float, guess: Vector, sd: Vector, at_most: Callable[[Vector], Vector]) -> Vector:
    """The smallest counts k with P(at most k) >= p, near a guess of whole numbers; all (n,), `at_most` too.

    It is right to 1e-12 of itself if it is too large for whole numbers.
    """
    step = np.maximum(np.ceil(0.01 * sd), 1.0)
    below, enough = np.maximum(guess - step, -1.0), guess
    while (high := (below >= 0) & (at_most(below) >= p)).any():
        enough, step = np.where(high, below, enough), 2 * step
        below = np.where(high, np.maximum(below - step, -1.0), below)
    while (low := at_most(enough) < p).any():
        below, step = np.where(low, enough, below), 2 * step
        enough = np.where(low, enough + step, enough)
    while (enough - below > np.maximum(1.0, _DIGITS * enough)).any():
        middle = np.floor(0.5 * (below + enough))
        reached = at_most(middle) >= p
        open_ = enough - below > 1
        below, enough = np.where(open_ & ~reached, middle, below), np.where(open_ & reached, middle, enough)
    return enough


def _at_most(k: Vector, ratio: Vector, shape: float) -> Vector:
    """P(at most k), ratio = exposure / rate: by the smaller of 1 / (1 + ratio) and its rest, which has its digits."""
    counts = np.maximum(k, 0.0) + 1
    rare = betaincc(counts, shape, ratio / (1 + ratio))
    return np.where(k < 0, 0.0, np.where(ratio < 1, rare, betainc(shape, counts, 1 / (1 + ratio))))


def _stirling_tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
    square = 1 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x
