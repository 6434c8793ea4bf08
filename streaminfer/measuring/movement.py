"""How far a posterior moved while its events grew, beside what a right model would move.

If the model is right and large samples rule, KL(new || old) is d/2 log(n_new / n_old) on average: d/2 log 2 for each
doubling. Precisions double, and the mean moves by what the new events add. Much more says that the data changes, that
the model is wrong or that the posterior is too sure; much less, that it does not listen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streaminfer.families import matrices
from streaminfer.models.model import Matrix, Vector


class Gaussian(NamedTuple):
    """Mean (d,) and covariance (d, d) of a posterior on any one scale, and the events in it."""

    mean: Vector
    cov: Matrix
    n_events: float


class Movement(NamedTuple):
    """KL in nats for each doubling of events, over that of a right model: 1 is as expected, give or take `se`."""

    value: float
    se: float
    divergence: float
    """KL(new || old) in nats."""


def measure(new: Gaussian, old: Gaussian) -> Movement:
    """Raises ValueError if events did not grow, or if a covariance is singular.

    The mean moves by N(0, (1 - 1/r) S_old) if the model is right, r = n_new / n_old. So KL has the deviation
    (1 - 1/r) sqrt(d / 2) around d/2 log r.
    """
    if not 0 < old.n_events < new.n_events:
        raise ValueError(f"events must grow for a movement, but there are {old.n_events:g} and then {new.n_events:g}")
    r, d = new.n_events / old.n_events, len(new.mean)
    divergence = kl(new, old)
    expected = 0.5 * d * math.log(2)
    doublings = math.log2(r)
    return Movement(
        divergence / doublings / expected, (1 - 1 / r) * math.sqrt(0.5 * d) / doublings / expected, divergence
    )


def kl(new: Gaussian, old: Gaussian) -> float:
    """KL(N(m1, S1) || N(m0, S0)) = (tr(S0^-1 S1) - d + log|S0| - log|S1| + (m1 - m0)' S0^-1 (m1 - m0)) / 2."""
    units = 1 / np.sqrt(np.maximum(old.cov.diagonal(), np.finfo(np.float64).tiny))
    try:
        before, after = (matrices.cholesky(units[:, None] * one.cov * units) for one in (old, new))
    except np.linalg.LinAlgError as error:
        raise ValueError("a covariance is singular: some combination of parameters does not vary") from error
    half = matrices.solve_lower(before, after)
    shift = matrices.solve_lower(before, units * (new.mean - old.mean))
    log_dets = matrices.log_determinant(before) - matrices.log_determinant(after)
    return 0.5 * (float((half**2).sum()) - len(units) + log_dets + float(shift @ shift))
