"""A model for tests that several passes can be made over, and whose statistics tell which events are in them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from streaminfer.models.conjugate.poisson import Poisson
from streaminfer.models.model import Matrix, Vector
from streaminfer.spec import Spec, StepSize, parse_spec


@dataclass(frozen=True)
class Tallied(Poisson):
    """Counts; expected statistics are those of the events, whatever the posterior, though callers must not rely on
    it."""

    methods: ClassVar[tuple[str, ...]] = ("svi", "memoized")
    exactness: ClassVar[str] = "approximate"
    needs_base: ClassVar[bool] = True

    def expected(self, q: Any, events: Matrix, weights: Vector | None = None) -> Vector:
        return self.statistics(events, weights)

    def elbo(self, q: Any, events: Matrix) -> float:
        return float(q.log_predictive(events).sum())


def tallied(method: str, epochs: int, partitions: int = 1, **inference: Any) -> Spec:
    """A spec of the field `k`; nothing lingers and every change is published at once."""
    settings = {"minibatch": 4, "linger_ms": 0, "snapshot_ms": 1, **inference}
    model = {"kind": "poisson", "field": "k"}
    spec = parse_spec({"name": "demo", "data": {"partitions": partitions}, "model": model, "inference": settings})
    step = StepSize() if method == "svi" else None
    by = replace(spec.inference, method=method, epochs=epochs, step=step)
    return Spec(spec.name, spec.data, Tallied("k"), by, spec.document)
