"""Whether new events are as the posterior before them predicted: ranks among draws of what they could have been."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streaminfer.measuring import calibration
from streaminfer.measuring.calibration import Reliability
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.measurement import Value
from streaminfer.models.model import Matrix, Posterior, Vector
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.found import Found, value
from streaminfer.variational.snapshot import Snapshot

DRAWS: Final = 199
"""Of what each event could have been: with the event itself, 200 ranks."""
MOST_EVENTS: Final = 2_000
PER_PARAMETER: Final = 100
"""Events for each parameter, from which on a posterior may judge its own events: they hardly move it."""
LEVELS: Final = 21
BLOCK: Final = 250
"""Events that are simulated at once."""


def run(context: Context) -> Found:
    model: Any = context.spec.model
    if not hasattr(model, "simulate"):
        raise Unknowable("The model cannot simulate events.", "Give its class a `simulate`.")
    base, events = _new_events(context)
    posterior = context.posterior if base is None else context.posterior_at(base)
    rng = context.rng("calibration")
    ranks = _ranks(model, posterior, events, rng)
    explained = calibration.explained(model)
    values = [each for i, name in enumerate(explained) for each in _told(name, ranks[:, i])]
    levels = np.linspace(0, 1, LEVELS)
    curves = {"pit": np.column_stack([levels, *((column[:, None] <= levels).mean(axis=0) for column in ranks.T)])}
    for field in model.fields:
        if field.kind == "binary" and field.name in explained:
            found = _reliability(model, posterior, events, field.name)
            values += [value("reliability", field.name, *found.error), value("bias", field.name, *found.bias)]
            curves.setdefault("reliability", found.curve)
    version = 0 if base is None else base.version
    return Found(tuple(values), "", DRAWS, len(events), version, curves)


def _reliability(model: Any, posterior: Posterior, events: Matrix, name: str) -> Reliability:
    """Of a 0/1 target: what was predicted, and what happened."""
    column = [field.name for field in model.fields].index(name)
    ones = events.copy()
    ones[:, column] = 1.0
    return calibration.reliability(np.exp(posterior.log_predictive(ones)), events[:, column])


def _new_events(context: Context) -> tuple[Snapshot | None, Matrix]:
    """Those that an older snapshot has not seen; or else of all events, if one event hardly moves the posterior."""
    for base in reversed(context.older):
        try:
            return base, context.events_since(base, MOST_EVENTS)
        except Unknowable:
            continue
    gathered = context.evidence.gathered
    if gathered.n < PER_PARAMETER * context.target.dimension:
        raise Unknowable("There are no events that an older posterior has predicted.", "Wait for new events.")
    return None, gathered.events[:MOST_EVENTS]


def _ranks(model: Any, posterior: Posterior, events: Matrix, rng: np.random.Generator) -> Matrix:
    """A block of events at a time: simulated ones take 199 times the room."""
    parameters = posterior.sample(rng, DRAWS)
    blocks = [events[begin : begin + BLOCK] for begin in range(0, len(events), BLOCK)]
    return np.concatenate([calibration.predicted(model, parameters, block, rng) for block in blocks])


def _told(name: str, ranks: Vector) -> list[Value]:
    """What the central 95% of predictions hold, and how ranks differ from uniform ones."""
    holds, away = calibration.coverage(ranks, 0.95), calibration.uniformity(ranks)
    columns = {"coverage": holds, "shift": away.shift, "width": away.width}
    return [value(what, name, each.value, each.se) for what, each in columns.items()]
