"""The methods of inference that a spec may name, as a worker sees them: from a base and events to what is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streaminfer.models.model import DomainError, Filter, Matrix, Model, Vector
from streaminfer.spec import Inference
from streaminfer.variational import svb, svi
from streaminfer.variational.base import Base, cavity
from streaminfer.variational.svb import Step

Learn = Callable[[Model, Inference, Base, Matrix, Vector | None, Vector | None], Step]


def learn(
    model: Model,
    inference: Inference,
    base: Base,
    events: Matrix,
    weights: Vector | None = None,
    own: Vector | None = None,
) -> Step:
    """What a minibatch (n, fields) says; `weights` (n,) where some events count less than others.

    `own` are the statistics that the base has of this minibatch, where an earlier pass met it (see `visits_cavity`).
    """
    return METHODS[inference.method](model, inference, base, events, weights, own)


def visits_cavity(model: Model, inference: Inference) -> bool:
    """Whether a later visit of a batch must know what the posterior has of it: memoized inference of a filter."""
    return inference.method == "memoized" and isinstance(model, Filter)


def _svb(
    model: Model, inference: Inference, base: Base, events: Matrix, weights: Vector | None, _own: Vector | None
) -> Step:
    return svb.step(model, base, events, weights, inference.local_iterations)


def _svi(
    model: Model, inference: Inference, base: Base, events: Matrix, _weights: Vector | None, _own: Vector | None
) -> Step:
    """All events count alike."""
    return svi.step(model, base, events, inference.population)


def _memoized(
    model: Model, inference: Inference, base: Base, events: Matrix, weights: Vector | None, own: Vector | None
) -> Step:
    """A filter takes a batch into the posterior of all others; one that gives none keeps what it had of the batch."""
    if not visits_cavity(model, inference):
        return svi.step(model, base, events)
    if own is None or not len(events):
        return svb.step(model, base, events, weights)
    try:
        return svb.step(model, cavity(model, base, own), events, weights)
    except DomainError:
        return Step(own, svb.score(base, events), n_unconverged=len(events))


METHODS: Final[Mapping[str, Learn]] = {"svb": _svb, "svi": _svi, "memoized": _memoized}
