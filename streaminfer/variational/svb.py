"""Streaming variational Bayes: the posterior of the past is the prior of the next minibatch.

Algorithms «SVB» and «SVB worker process» of the seed; Broderick et al. 2013. A worker's increment is
A(y, eta_base) - eta_base (seed's errata: the difference, never the posterior itself), which for a conjugate model is
the minibatch's statistics whatever the base.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Model, Posterior

LOWEST: Final = -1e100
"""A log density below this, or one that float64 cannot hold, says no more than this and stays finite when summed."""


class Step(NamedTuple):
    """What a minibatch changes, and how well the base predicted it before it was absorbed."""

    statistics: NDArray[np.float64]
    score: float


def step(
    model: Model, base: Posterior, events: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> Step:
    """The increment of one minibatch (n, fields) on a base posterior; n may be 0. In the score all count alike."""
    if len(events) == 0:
        return Step(model.empty(), 0.0)
    with np.errstate(all="ignore"):  # what float64 cannot hold counts as LOWEST
        densities = np.nan_to_num(base.log_predictive(events), nan=LOWEST, neginf=LOWEST, posinf=-LOWEST)
    return Step(model.statistics(events, weights), float(np.sum(np.clip(densities, LOWEST, -LOWEST))))
