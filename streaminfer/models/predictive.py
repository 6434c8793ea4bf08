"""Predictive densities of the conjugate models, stable where the parameters are large."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import gammaln
from streaminfer.models.model import Vector

_STIRLING_FROM: Final = 64.0
"""From here four terms of Stirling's series are exact in float64."""


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


def _stirling_tail(x: NDArray[np.float64]) -> NDArray[np.float64]:
    square = 1 / (x * x)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / x
