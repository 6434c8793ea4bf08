"""A model for tests of methods: its events have no variables of their own, so every expectation is known exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from streaminfer.models.conjugate.poisson import Poisson, PoissonPosterior
from streaminfer.models.model import Matrix, Vector
from streaminfer.spec import Inference

SVB = Inference("svb", 100, 0, 0, 100, 100)


class Plain:
    """Poisson counts in the coat of a model with latent variables: expected statistics are the statistics."""

    kind: ClassVar[str] = "plain"
    methods: ClassVar[tuple[str, ...]] = ("svb", "svi", "memoized")
    exactness: ClassVar[str] = "bound"
    needs_base: ClassVar[bool] = True
    options = Poisson.options

    def __init__(self) -> None:
        self.poisson = Poisson("k")
        self.fields, self.labels, self.size = self.poisson.fields, self.poisson.labels, self.poisson.size
        self.empty, self.merge, self.scale = self.poisson.empty, self.poisson.merge, self.poisson.scale
        self.proper, self.posterior = self.poisson.proper, self.poisson.posterior

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        return cls()

    def expected(self, q: PoissonPosterior, events: Matrix, weights: Vector | None = None) -> Vector:
        return self.poisson.statistics(events, weights)

    def elbo(self, q: PoissonPosterior, events: Matrix) -> float:
        raise AssertionError("nobody asks a plain model for its bound")


def counts(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).poisson(3.0, (n, 1)).astype(np.float64)
