"""A model for tests whose increments depend on their base and may leave the domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from streaminfer.models.events import Field
from streaminfer.models.model import DomainError, Flags, Matrix, Moments, Vector
from streaminfer.models.options import Option, Section, Text
from streaminfer.spec import Spec, parse_spec
from streaminfer.variational.increment import Increment
from streaminfer.variational.snapshot import Snapshot
from tests.made import new_increment, new_snapshot


@dataclass(frozen=True)
class Guarded:
    """Statistics are one sum, which must stay above -limit: precision = limit + sum x."""

    kind: ClassVar[str] = "guarded"
    methods: ClassVar[tuple[str, ...]] = ("svb",)
    exactness: ClassVar[str] = "approximate"
    needs_base: ClassVar[bool] = True
    options: ClassVar[Section] = Section([Option("field", Text(), "a number")])

    limit: float = 1.0

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        return cls()

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("x", "number"),)

    @property
    def size(self) -> int:
        return 1

    def empty(self) -> Vector:
        return np.zeros(1)

    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    def absorb(self, base: GuardedPosterior, events: Matrix, weights: Vector | None = None) -> Vector:
        return events.sum(axis=0) if weights is None else weights @ events

    def merge(self, a: Vector, b: Vector) -> Vector:
        return a + b

    def scale(self, statistics: Vector, weight: float) -> Vector:
        return statistics * weight

    def proper(self, statistics: Matrix) -> Flags:
        return self.limit + statistics[:, 0] > 0

    def posterior(self, statistics: Vector) -> GuardedPosterior:
        if not self.limit + statistics[0] > 0:
            raise DomainError(f"precision {self.limit + statistics[0]:g}")
        return GuardedPosterior(self.limit + float(statistics[0]))


@dataclass(frozen=True)
class GuardedPosterior:
    """Only what the services ask of a posterior."""

    family: ClassVar[str] = "gaussian"

    precision: float

    @property
    def natural(self) -> Vector:
        return np.array([0.0, self.precision])

    def moments(self) -> dict[str, Moments]:
        return {"x": Moments(np.array(0.0), np.array(self.precision**-0.5))}

    def log_predictive(self, events: Matrix) -> Vector:
        return -0.5 * self.precision * events[:, 0] ** 2


def spec_of(model: Any = None, **inference: Any) -> Spec:
    """A spec of the guarded model, with one data partition unless told otherwise."""
    partitions = inference.pop("partitions", 1)
    document = {
        "name": "guarded",
        "data": {"partitions": partitions},
        "model": {"kind": "bernoulli", "field": "x"},
        "inference": inference,
    }
    spec = parse_spec(document)
    return Spec(spec.name, spec.data, model or Guarded(), spec.inference, spec.document)


def change(value: float, **fields: Any) -> Increment:
    """An increment of one event that adds `value`, from position 0."""
    known: dict[str, Any] = {
        "fingerprint": "f", "writer": "w", "topic": "t", "partition": 0, "begin": 0, "end": 1, "n_events": 1,
        "n_dead_lettered": 0, "n_lost": 0, "base_version": 0, "score": -1.0, "statistics": np.array([value]),
    }  # fmt: skip
    return new_increment(**{**known, **fields})


def standing(value: float = 0.0, **fields: Any) -> Snapshot:
    """A snapshot of the guarded model that knows partition 0, at position 0."""
    return new_snapshot(**{"version": 5, "statistics": np.array([value]), "positions": {0: 0}, **fields})
