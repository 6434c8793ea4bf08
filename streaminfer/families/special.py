"""Special functions, triangular algebra and optimisation of scipy, loaded at the first use.

scipy takes longer to load than everything else together, and many processes never need it: a command that shows a
table, a supervisor, the master of a model without matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Numbers = float | NDArray[np.floating[Any]]


def gammaln(x: Numbers) -> Array:
    """log Gamma(x)."""
    from scipy import special

    return np.asarray(special.gammaln(x), dtype=np.float64)


def multigammaln(a: float, d: int) -> float:
    """The log of the multivariate gamma function of order d."""
    from scipy import special

    return float(special.multigammaln(a, d))


def betaln(a: Numbers, b: Numbers) -> Array:
    """log B(a, b)."""
    from scipy import special

    return np.asarray(special.betaln(a, b), dtype=np.float64)


def psi(x: Numbers) -> Array:
    """The derivative of log Gamma."""
    from scipy import special

    return np.asarray(special.psi(x), dtype=np.float64)


def xlogy(x: Numbers, y: Numbers) -> Array:
    """x log y, and 0 if x is 0."""
    from scipy import special

    return np.asarray(special.xlogy(x, y), dtype=np.float64)


def erfcx(x: Numbers) -> Array:
    """exp(x^2) (1 - erf(x))."""
    from scipy import special

    return np.asarray(special.erfcx(x), dtype=np.float64)


def log_ndtr(x: Numbers) -> Array:
    """The log of the standard normal distribution function."""
    from scipy import special

    return np.asarray(special.log_ndtr(x), dtype=np.float64)


def ndtr(x: Numbers) -> Array:
    """The standard normal distribution function."""
    from scipy import special

    return np.asarray(special.ndtr(x), dtype=np.float64)


def ndtri_exp(log_p: Numbers) -> Array:
    """The quantile of a standard normal number, by the log of its probability."""
    from scipy import special

    return np.asarray(special.ndtri_exp(log_p), dtype=np.float64)


def ndtri(p: float) -> float:
    """The quantile of a standard normal number."""
    from scipy import special

    return float(special.ndtri(p))


def stdtrit(dof: float, p: float) -> float:
    """The quantile of Student's t for p < 1/2; minus infinity if it leaves float64, as it may for a dof near 0."""
    from scipy import special

    found = float(special.stdtrit(dof, p))
    return found if abs(float(special.stdtr(dof, found)) - p) <= 1e-6 * p else -np.inf


def gammaincc(a: Numbers, x: Numbers) -> Array:
    """1 less the distribution function of Gamma(a): P(a Poisson number of mean x is below a)."""
    from scipy import special

    return np.asarray(special.gammaincc(a, x), dtype=np.float64)


def betainc(a: Numbers, b: Numbers, x: Numbers) -> Array:
    """The distribution function of Beta(a, b)."""
    from scipy import special

    return np.asarray(special.betainc(a, b, x), dtype=np.float64)


def betaincc(a: Numbers, b: Numbers, x: Numbers) -> Array:
    """1 less the distribution function of Beta(a, b)."""
    from scipy import special

    return np.asarray(special.betaincc(a, b, x), dtype=np.float64)


def betaincinv(a: Numbers, b: Numbers, p: Numbers) -> Array:
    """The quantile of Beta(a, b)."""
    from scipy import special

    return np.asarray(special.betaincinv(a, b, p), dtype=np.float64)


def dtrsm(*arguments: Any, **options: Any) -> Any:
    """BLAS: solves triangular systems."""
    from scipy.linalg import blas

    return blas.dtrsm(*arguments, **options)


def solve_triangular(upper: Array, right: Array) -> Array:
    """U^-1 b for an upper triangular U, b (d,)."""
    return np.asarray(dtrsm(1.0, upper, right[:, None], lower=0)[:, 0], dtype=np.float64)


def dpstrf(matrix: Array) -> Any:
    """LAPACK: Cholesky factor with pivots, of a matrix that may be singular."""
    from scipy.linalg import lapack

    return lapack.dpstrf(matrix)


def linear_assignment(costs: Array) -> NDArray[np.intp]:
    """Which column each row (k, k) takes, each another one, so that the sum of their costs is smallest."""
    from scipy import optimize

    return np.asarray(optimize.linear_sum_assignment(costs)[1], dtype=np.intp)


def maximise(total: Callable[[Array], tuple[float, Array]], start: Array, lowest: Array, highest: Array) -> Array:
    """L-BFGS-B: a place between the bounds at which `total`, which returns value and gradient, is largest."""
    from scipy import optimize

    def descent(place: Array) -> tuple[float, Array]:
        value, gradient = total(place)
        return -value, -gradient

    found = optimize.minimize(
        descent,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=optimize.Bounds(lowest, highest),
        options={"maxiter": 500, "maxfun": 1000, "ftol": 1e-14, "gtol": 1e-7},
    )
    return _polished(lambda place: total(place)[1], np.asarray(found.x, dtype=np.float64), lowest, highest)


MOST_POLISHED: Final = 64
"""Drawn of a maximum that is polished: each takes two more gradients."""
CLOSE: Final = 0.01
"""How far a polished maximum may be from the one that was found; further away it would be another one, or none."""


def _polished(gradient: Callable[[Array], Array], found: Array, lowest: Array, highest: Array) -> Array:
    """A maximum inside the bounds to the last digits of its gradient, by Newton's method with one Hessian.

    If values agree to all their digits, their places still differ by the root of that, and rounding decides at which of
    them a search by values ends. Data that differs in its last digits would give a maximum that differs in the sixth.
    """
    inside = np.flatnonzero((found > lowest) & (found < highest))
    if not 0 < len(inside) <= MOST_POLISHED:
        return found

    def slopes(place: Array) -> Array:
        whole = found.copy()
        whole[inside] = place
        return gradient(whole)[inside]

    start = place = found[inside]
    steps = 1e-4 * np.eye(len(inside))
    hessian = np.array([(slopes(start + step) - slopes(start - step)) / 2e-4 for step in steps])
    for _ in range(6):
        try:
            place = place - np.linalg.solve((hessian + hessian.T) / 2, slopes(place))
        except np.linalg.LinAlgError:
            return found
        if not np.abs(place - start).max() <= CLOSE:
            return found
    polished = found.copy()
    polished[inside] = np.clip(place, lowest[inside], highest[inside])
    return polished


def student_tail(t: float, freedom: float) -> float:
    """P(T > t) of Student's t, to its last digits however far out."""
    from scipy import special

    return float(special.stdtr(freedom, -t))
