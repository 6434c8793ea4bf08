"""Whether a mixture is one that other starts find as well: coordinate ascent finds one of many optima."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.models.mixture.gaussian_mixture import GaussianMixture
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.found import Found, value
from streaminfer.variational import base
from streaminfer.variational.methods import coordinate_ascent

STARTS = 5
MOST_EVENTS = 5_000
"""Events that each start is fitted to."""
CLOSE = 0.02
"""Nats an event by which fits may differ and still agree; what they learn from some events alone comes on top."""


def run(context: Context) -> Found:
    """Fits of the same events from other starts, compared by their mean log predictive density of these events."""
    model, gathered = context.spec.model, context.evidence.gathered
    if not isinstance(model, GaussianMixture):
        raise Unknowable("Only mixtures have several starts.")
    events = gathered.events[:MOST_EVENTS]
    published = float(np.mean(context.posterior.log_predictive(events)))
    found = sorted(_fitted(replace(model, seed=model.seed + 1 + i), events) for i in range(STARTS))
    room = CLOSE + model.size / len(events)
    agree = sum(each >= found[-1] - room for each in found)
    # what is within the room is the same, so nothing is behind
    behind = max(0.0, found[-1] - published - room)
    return Found((value("behind", "", behind), value("agreeing", "", agree)), n_data=len(events))


def _fitted(model: GaussianMixture, events: np.ndarray) -> float:
    found = coordinate_ascent.ascended(model, base.prior(model), events)
    return float(np.mean(model.posterior(found.statistics).log_predictive(events)))
