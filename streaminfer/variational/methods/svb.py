"""Streaming variational Bayes: the posterior of the past is the prior of the next minibatch.

Algorithms «SVB» and «SVB worker process» of Angelino, Johnson and Adams (2016); Broderick et al. 2013.
A worker's increment is A(y, eta_base) - eta_base (the difference, never the posterior itself).
For a conjugate model that is the minibatch's statistics, whatever the base. For a model with latent variables A is
coordinate ascent on the minibatch, with the base as its prior.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Absorbed, Filter, Latent, Matrix, Model, Vector, is_conjugate
from streaminfer.models.options import Integer, Option
from streaminfer.variational.base import Base
from streaminfer.variational.forgetting.rules import FORGET
from streaminfer.variational.methods import coordinate_ascent
from streaminfer.variational.settings import Inference

OPTIONS: Final = (
    Option("forget", FORGET, "How old events lose their weight; not set means that all count alike.", None),
    Option(
        "local_iterations",
        Integer(1, 10_000),
        "Passes over a minibatch at most, if svb learns a model with latent variables. Not set means 100, or 20 "
        "for lda.",
        None,
    ),
)

LOWEST: Final = -1e100
"""A log density below this, or one that float64 cannot hold, says no more than this and stays finite when summed."""


class Step(NamedTuple):
    """What a minibatch changes, and how well the base predicted it before it was absorbed. The last number counts the
    events that were learned by an algorithm that had not converged."""

    statistics: NDArray[np.float64]
    score: float
    n_unconverged: int = 0


def learn(
    model: Model, inference: Inference, base: Base, events: Matrix, weights: Vector | None, _own: Vector | None
) -> Step:
    """The worker's part of the method."""
    return step(model, base, events, weights, inference.local_iterations)


def step(
    model: Model,
    base: Base,
    events: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    iterations: int | None = None,
) -> Step:
    """The increment of one minibatch (n, fields) on a base posterior; n may be 0. In the score all count alike.

    `iterations` bounds the passes of coordinate ascent over the minibatch.
    """
    if len(events) == 0:
        return Step(model.empty(), 0.0)
    statistics, converged = change(model, base, events, weights, iterations)
    return Step(statistics, score(base, events), 0 if converged else len(events))


def score(base: Base, events: NDArray[np.float64]) -> float:
    """The log predictive density of events before they are absorbed; what float64 cannot hold counts as LOWEST."""
    with np.errstate(all="ignore"):
        densities = np.nan_to_num(base.posterior.log_predictive(events), nan=LOWEST, neginf=LOWEST, posinf=-LOWEST)
    return float(np.sum(np.clip(densities, LOWEST, -LOWEST)))


def change(
    model: Model,
    base: Base,
    events: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    iterations: int | None = None,
) -> Absorbed:
    """A(y, eta_base) - eta_base of one event or more, and whether the algorithm has converged."""
    if is_conjugate(model):
        return Absorbed(model.statistics(events, weights), converged=True)
    if isinstance(model, Filter):
        found = model.absorb(base.posterior, events, weights)
        return found if isinstance(found, Absorbed) else Absorbed(found, converged=True)
    if isinstance(model, Latent):
        return coordinate_ascent.ascended(model, base, events, weights, iterations)
    raise TypeError(f"{model.kind} has none of statistics, absorb and expected")
