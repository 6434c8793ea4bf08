"""The fold `blend`: natural-gradient steps of stochastic variational inference.

Angelino, Johnson and Adams 2016, algorithm «SVI»; Hoffman et al. 2013. With a minibatch B of expected statistics s,
lambda <- (1 - rho_t) lambda + rho_t (eta_0 + N / |B| s). What is held is the blend of statistics *of one event*,
S <- (1 - rho_t) S + rho_t s / |B|, and lambda = eta_0 + N S with the N of the moment. So an N that grows is right for
old minibatches too; statistics that were scaled when they were sent would keep the N of then.

If N is the number of events seen so far, S is divided by the weights that all minibatches have in it,
1 - (1 - rho_1) ... (1 - rho_t). Otherwise the first posteriors would stand for a small part of what was seen.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from streaminfer.models.model import Model, Vector
from streaminfer.variational import epochs
from streaminfer.variational.admission import proper
from streaminfer.variational.forgetting.decay import Forgetting
from streaminfer.variational.increment import Increment
from streaminfer.variational.methods import tail_average
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.settings import Inference
from streaminfer.variational.snapshot import Snapshot

TAIL: Final = 3
"""In the average of constant steps, iterate t of T weighs about (t / T)^TAIL: half of it is of the last sixth."""


def fold(
    model: Model,
    inference: Inference,
    snapshot: Snapshot,
    increment: Increment,
    _fresh_from: int,
    _forgetting: Forgetting | None,
) -> tuple[Snapshot, Outcome]:
    """A snapshot one step on if the increment gives a proper posterior, else as it was.

    Steps blend statistics of events, and those are all proper: so one that is not is not damped.
    """
    if not increment.n_events:
        return snapshot, Outcome.FOLDED
    if not proper(model, increment.payload.statistics):
        return snapshot, Outcome.REJECTED
    stepped = step(model, inference, snapshot, increment)
    n_new = increment.n_events if epochs.counts(snapshot, increment) else 0
    counted = replace(stepped, counts=replace(snapshot.counts, n_events=snapshot.n_events + n_new))
    if not proper(model, iterate(model, inference, counted), published(model, inference, counted)):
        return snapshot, Outcome.REJECTED
    return counted, Outcome.FOLDED


def step(model: Model, inference: Inference, snapshot: Snapshot, increment: Increment) -> Snapshot:
    """A snapshot after one more step, with an increment of one event or more of unscaled expected statistics."""
    if inference.step is None:
        raise ValueError("the fold blend needs sizes of steps")
    held = snapshot.payload
    t = held.n_steps + 1
    of_one = model.scale(increment.payload.statistics, 1 / increment.n_events)
    statistics = blended(model, held.statistics, of_one, inference.step.at(t))
    average = None
    if inference.step.constant is not None:
        # Polynomial-decay averaging (Shamir & Zhang 2013): a tail average that needs no end to count from.
        before = model.empty() if held.average is None else held.average
        average = blended(model, before, statistics, (TAIL + 1) / (t + TAIL))
    return replace(snapshot, payload=replace(held, statistics=statistics, n_steps=t, average=average))


def blended(model: Model, old: Vector, new: Vector, rho: float) -> Vector:
    """(1 - rho) old + rho new."""
    return model.merge(model.scale(old, 1 - rho), model.scale(new, rho))


def iterate(model: Model, inference: Inference, snapshot: Snapshot) -> Vector:
    """The statistics that the next step starts from."""
    return model.scale(snapshot.payload.statistics, of_all(inference, snapshot, averaged=False))


def published(model: Model, inference: Inference, snapshot: Snapshot) -> Vector:
    """The statistics of the posterior that a snapshot publishes: those of the average if steps are constant."""
    if snapshot.payload.average is None:
        return iterate(model, inference, snapshot)
    return model.scale(snapshot.payload.average, of_all(inference, snapshot, averaged=True))


def of_all(inference: Inference, snapshot: Snapshot, averaged: bool) -> float:
    """How often what is held counts: it is of one event and stands for all; `averaged`: it is an average."""
    n, step = snapshot.payload.n_steps, inference.step
    if inference.population is not None or step is None or n == 0:
        return float(inference.population or snapshot.n_events)
    if averaged and step.constant is not None:
        return snapshot.n_events / tail_average.weight(n, step.constant)
    return snapshot.n_events / (1 - step.left(n))
