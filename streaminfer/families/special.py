"""Special functions and triangular algebra of scipy, loaded at the first use.

scipy takes longer to load than everything else together, and most processes never need it: a command that shows a
table, a supervisor, the master of a model without matrices.
"""

from __future__ import annotations

from typing import Any

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
    """x log y, and 0 where x is 0."""
    from scipy import special

    return np.asarray(special.xlogy(x, y), dtype=np.float64)


def dtrsm(*arguments: Any, **options: Any) -> Any:
    """BLAS: solves triangular systems."""
    from scipy.linalg import blas

    return blas.dtrsm(*arguments, **options)


def dpstrf(matrix: Array) -> Any:
    """LAPACK: Cholesky factor with pivots, of a matrix that may be singular."""
    from scipy.linalg import lapack

    return lapack.dpstrf(matrix)
