"""One pass over events in memory by workers that are behind the posterior, with the master's own rule on how far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streaminfer.variational import base as bases
from streaminfer.variational.methods import svb

Learn = Callable[[Any, bases.Base, np.ndarray], np.ndarray]


def by_svb(model: Any, base: bases.Base, events: np.ndarray) -> np.ndarray:
    return svb.change(model, base, events).statistics


def streamed(model: Any, events: np.ndarray, minibatch: int, staleness: int = 0, learn: Learn = by_svb) -> Any:
    """The posterior of all minibatches, each learned from the one of up to `staleness` minibatches before."""
    history = [bases.prior(model)]
    for begin in range(0, len(events), minibatch):
        batch = events[begin : begin + minibatch]
        back = min(staleness, len(history) - 1)
        while bases.too_old(model, history[-1].n_events, history[-1 - back].n_events):
            back -= 1
        statistics = model.merge(history[-1].statistics, learn(model, history[-1 - back], batch))
        posterior = model.posterior(statistics)
        history = [*history[-staleness - 1 :], bases.Base(0, begin + len(batch), statistics, posterior)]
    return history[-1].posterior
