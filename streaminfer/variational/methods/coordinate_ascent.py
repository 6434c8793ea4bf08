"""Coordinate ascent variational inference: local variables given the parameters, parameters given the local ones.

Angelino, Johnson and Adams 2016, chapter on variational inference. With the prior as its base and all events as one
minibatch it is batch variational Bayes. With a posterior as its base it is the A(y, eta_base) of streaming variational
Bayes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streaminfer.models.model import Absorbed, Latent, Matrix, Posterior, Vector
from streaminfer.variational.base import Base

ITERATIONS: Final = 100
"""The most passes over a minibatch, unless the spec or the model (`most_passes`) says otherwise."""
TOLERANCE: Final = 1e-6
"""A change of the statistics below this part of the largest of them is none, if the events' densities do not see it."""


def ascended(
    model: Latent,
    base: Base,
    events: Matrix,
    weights: Vector | None = None,
    iterations: int | None = None,
    tolerance: float = TOLERANCE,
) -> Absorbed:
    """The expected statistics of events (n, fields), n >= 1, once they and the posterior they give agree.

    Repeats s <- E[T | q] and q <- posterior(base + s). Neither lets the bound fall.
    """
    statistics = model.expected(base.posterior, events, weights)
    most = getattr(model, "most_passes", ITERATIONS) if iterations is None else iterations
    for _ in range(most - 1):
        q = model.posterior(model.merge(base.statistics, statistics))
        before, statistics = statistics, model.expected(q, events, weights)
        if np.abs(statistics - before).max() <= tolerance * np.abs(statistics).max():
            after = model.posterior(model.merge(base.statistics, statistics))
            if _seen(q, after, events) <= tolerance:
                return Absorbed(statistics, converged=True)
    return Absorbed(statistics, converged=False)


def _seen(q: Posterior, after: Posterior, events: Matrix) -> float:
    """How much the log densities of events differ on average.

    If events are far from 0 the largest statistics are their means, and no other change counts beside those.
    """
    with np.errstate(all="ignore"):
        change = np.abs(after.log_predictive(events) - q.log_predictive(events))
    return float(np.nan_to_num(change, posinf=0.0).mean())
