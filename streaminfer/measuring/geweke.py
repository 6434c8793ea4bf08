"""Geweke's convergence score (1992): do the beginning and the end of a chain have the same mean?

Variances of means are those of correlated draws: the spectrum at 0 of an autoregression, whose order is chosen by
Akaike's criterion. The variance of independent draws would find most chains at fault.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.models.model import Matrix, Vector

FIRST, LAST = 0.1, 0.5
LEAST: Final = 100
"""Of fewer draws the first tenth tells nothing."""


def score(chain: Matrix, first: float = FIRST, last: float = LAST) -> Vector:
    """z of each coordinate of a chain (n, c): near a standard normal number if the chain is stationary.

    A coordinate that does not move in one of the parts has NaN.
    """
    chain = np.asarray(chain, dtype=np.float64)
    if len(chain) < LEAST:
        raise Unknowable(f"The chain has {len(chain)} draws, and {LEAST} are needed.", "Wait for more draws.")
    if not np.isfinite(chain).all():
        raise Unknowable("Draws are not finite.")
    begin, end = chain[: int(first * len(chain))], chain[len(chain) - int(last * len(chain)) :]
    variance = spectrum_at_0(begin) / len(begin) + spectrum_at_0(end) / len(end)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((begin.mean(axis=0) - end.mean(axis=0)) / np.sqrt(variance), dtype=np.float64)


def spectrum_at_0(chain: Matrix) -> Vector:
    """n times the variance of the mean of n draws, for each coordinate of a chain (n, c); NaN if it does not move.

    Levinson and Durbin's recursion gives the autoregressions of all orders up to 10 log10 n, by their residual variance
    v and coefficients a: v / (1 - sum a)^2.
    """
    n, c = chain.shape
    most = min(n - 1, int(10 * np.log10(n)))
    around = chain - chain.mean(axis=0)
    covariances = np.array([(around[: n - lag] * around[lag:]).sum(axis=0) / n for lag in range(most + 1)])
    with np.errstate(divide="ignore", invalid="ignore"):
        coefficients = np.zeros((0, c))
        residual = np.where(covariances[0] > 0, covariances[0], np.nan)
        best, lowest = residual * n / (n - 1), n * np.log(residual)
        for order in range(1, most + 1):
            past: NDArray[np.float64] = covariances[order - 1 : 0 : -1]
            last = (covariances[order] - (coefficients * past).sum(axis=0)) / residual
            coefficients = np.vstack([coefficients - last * coefficients[::-1], last[None]])
            residual = residual * (1 - last**2)
            criterion = n * np.log(residual) + 2 * order
            spectrum = residual * n / (n - order - 1) / (1 - coefficients.sum(axis=0)) ** 2
            best, lowest = np.where(criterion < lowest, spectrum, best), np.fmin(criterion, lowest)
    return np.asarray(best, dtype=np.float64)
