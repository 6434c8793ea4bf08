"""The fold `blend`: natural-gradient steps of stochastic variational inference.

Seed, algorithm «SVI»; Hoffman et al. 2013. With a minibatch B of expected statistics s,
lambda <- (1 - rho_t) lambda + rho_t (eta_0 + N / |B| s). What is held is the blend of statistics *of one event*,
S <- (1 - rho_t) S + rho_t s / |B|, and lambda = eta_0 + N S with the N of the moment: so an N that grows is right for
old minibatches too (statistics that were scaled when they were sent would keep the N of then).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from streaminfer.models.model import Model, Vector
from streaminfer.spec import Inference
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot

TAIL: Final = 3
"""In the average of constant steps, iterate t of T weighs about (t / T)^TAIL: half of it is of the last sixth."""


def step(model: Model, inference: Inference, snapshot: Snapshot, increment: Increment) -> Snapshot:
    """A snapshot after one more step, with an increment of one event or more of unscaled expected statistics."""
    if inference.step is None:
        raise ValueError("the fold blend needs sizes of steps")
    t = snapshot.n_steps + 1
    of_one = model.scale(increment.statistics, 1 / increment.n_events)
    held = blended(model, snapshot.statistics, of_one, inference.step.at(t))
    average = None
    if inference.step.constant is not None:
        # Polynomial-decay averaging (Shamir & Zhang 2013): a tail average that needs no end to count from.
        before = model.empty() if snapshot.average is None else snapshot.average
        average = blended(model, before, held, (TAIL + 1) / (t + TAIL))
    return replace(snapshot, statistics=held, n_steps=t, average=average)


def blended(model: Model, old: Vector, new: Vector, rho: float) -> Vector:
    """(1 - rho) old + rho new."""
    return model.merge(model.scale(old, 1 - rho), model.scale(new, rho))


def iterate(model: Model, inference: Inference, snapshot: Snapshot) -> Vector:
    """The statistics that the next step starts from; of other methods those that are held."""
    return _of_all(model, inference, snapshot, snapshot.statistics)


def published(model: Model, inference: Inference, snapshot: Snapshot) -> Vector:
    """The statistics of the posterior that a snapshot publishes: of constant steps those of the average."""
    held = snapshot.statistics if snapshot.average is None else snapshot.average
    return _of_all(model, inference, snapshot, held)


def _of_all(model: Model, inference: Inference, snapshot: Snapshot, held: Vector) -> Vector:
    if inference.method != "svi":
        return held
    return model.scale(held, inference.population or snapshot.n_events)
