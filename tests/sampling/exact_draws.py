"""Independent draws from posteriors that are known in closed form, as samplers would give them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaminfer.models.targets import target_of
from streaminfer.sampling import flat
from streaminfer.sampling.pooled.pooling import Chain, Statistics, pool
from streaminfer.sampling.pooled.posterior import DrawsPosterior
from streaminfer.variational import base
from streaminfer.variational.methods.svb import change
from tests.models.examples import Example, model_of


class Known(NamedTuple):
    """A model, its posterior of some events, other events, and the target."""

    model: Any
    exact: Any
    events: np.ndarray
    target: Any

    @property
    def inputs(self) -> np.ndarray:
        """The rows of `events` as a prediction takes them."""
        return self.events[:, [self.model.fields.index(each) for each in self.model.inputs]]

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """(n, D)."""
        return flat.flatten(self.exact.sample(rng, n), self.target.shapes)


def known(example: Example, n: int = 60, others: int = 6) -> Known:
    model: Any = model_of(example)
    events = example.events(np.random.default_rng(3), n)
    if hasattr(model, "statistics"):
        exact = model.posterior(model.statistics(events))
    else:
        exact = model.posterior(change(model, base.prior(model), events).statistics)
    return Known(model, exact, example.events(np.random.default_rng(4), others), target_of(model))


def posterior(target: Any, draws: np.ndarray) -> DrawsPosterior:
    """Of one chain, all of whose draws are retained."""
    statistics: Statistics = pool([Chain(draws, np.ones(len(draws)))], True, np.random.default_rng(0)).statistics
    return DrawsPosterior(target, statistics.vector, draws, (len(draws),))
