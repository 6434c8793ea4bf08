"""Stochastic variational inference, the worker's part: the expected statistics of a minibatch under the posterior.

Seed, algorithm «SVI»; Hoffman et al. 2013. They are sent unscaled with the count of events; the master takes the step,
as it alone knows the size of the next step and how many events there are (see `blend`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Latent, Model
from streaminfer.variational.base import Base
from streaminfer.variational.svb import Step, score


def step(model: Model, base: Base, events: NDArray[np.float64]) -> Step:
    """The expected statistics of one minibatch (n, fields) under a base posterior, and its score; n may be 0."""
    if not isinstance(model, Latent):
        raise TypeError(f"{model.kind} has no expected statistics")
    if len(events) == 0:
        return Step(model.empty(), 0.0)
    return Step(model.expected(base.posterior, events), score(base, events))
