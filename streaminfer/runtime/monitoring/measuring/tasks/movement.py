"""How far the posterior has moved while its events grew, beside what it does if the model is right."""

from __future__ import annotations

from typing import Final

from streaminfer.measuring import movement, whitening
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.movement import Gaussian
from streaminfer.models.model import Matrix
from streaminfer.runtime.monitoring.measuring.context import Context
from streaminfer.runtime.monitoring.measuring.found import Found, value

LEAST: Final = 1.5
"""Times the events of the older snapshot: below that there is too little to move for."""


def run(context: Context) -> Found:
    newest = context.snapshot
    before = [each for each in context.older if newest.n_effective >= LEAST * each.n_effective]
    if not before:
        raise Unknowable("There is no older snapshot with much fewer events.", "Wait for more events.")
    old = before[-1]
    now, then = _gaussian(context.theta, newest.n_effective), _gaussian(context.theta_at(old), old.n_effective)
    moved = movement.measure(now, then)
    values = (value("movement", "", moved.value, moved.se), value("nats", "", moved.divergence))
    return Found(values, "", len(context.theta), newest.n_events - old.n_events, old.version)


def _gaussian(theta: Matrix, n_events: float) -> Gaussian:
    place = whitening.of_draws(theta)
    return Gaussian(place.mean, place.root @ place.root.T, n_events)
