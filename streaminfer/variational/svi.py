"""Stochastic variational inference, the worker's part: the expected statistics of a minibatch under the posterior.

Seed, algorithm «SVI»; Hoffman et al. 2013. They are sent unscaled with the count of events; the master takes the step,
as it alone knows the size of the next step and how many events there are (see `blend`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Filter, Latent, Model
from streaminfer.variational import svb
from streaminfer.variational.base import Base
from streaminfer.variational.svb import Step, score


def step(model: Model, base: Base, events: NDArray[np.float64], population: int | None = None) -> Step:
    """The expected statistics of one minibatch (n, fields) under a base posterior, and its score; n may be 0.

    Expectations under a vague prior say little, and a step by them may lead anywhere. So if the model is a filter, the
    first minibatch is learned as by svb, its events standing for the `population`.
    """
    if not isinstance(model, Latent):
        raise TypeError(f"{model.kind} has no expected statistics")
    if len(events) == 0:
        return Step(model.empty(), 0.0)
    if base.n_events == 0 and isinstance(model, Filter):
        times = (population or len(events)) / len(events)
        statistics, converged = svb.change(model, base, events, np.full(len(events), times))
        return Step(model.scale(statistics, 1 / times), score(base, events), 0 if converged else len(events))
    return Step(model.expected(base.posterior, events), score(base, events))
