"""The methods of inference that a spec may name, as a worker sees them: from a base and events to what is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from streaminfer.models.model import Matrix, Model, Vector
from streaminfer.spec import Inference
from streaminfer.variational import svb, svi
from streaminfer.variational.base import Base
from streaminfer.variational.coordinate_ascent import ITERATIONS
from streaminfer.variational.svb import Step

Learn = Callable[[Model, Inference, Base, Matrix, Vector | None], Step]


def learn(model: Model, inference: Inference, base: Base, events: Matrix, weights: Vector | None) -> Step:
    """What a minibatch (n, fields) says; `weights` (n,) where some events count less than others."""
    return METHODS[inference.method](model, inference, base, events, weights)


def _svb(model: Model, inference: Inference, base: Base, events: Matrix, weights: Vector | None) -> Step:
    return svb.step(model, base, events, weights, inference.local_iterations or ITERATIONS)


def _svi(model: Model, inference: Inference, base: Base, events: Matrix, weights: Vector | None) -> Step:  # noqa: ARG001 (all count alike)
    return svi.step(model, base, events)


METHODS: Final[Mapping[str, Learn]] = {"svb": _svb, "svi": _svi, "memoized": _svi}
