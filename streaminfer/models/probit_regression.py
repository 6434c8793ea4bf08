"""Probit regression by expectation propagation: P(y = 1) = Phi(w · z).

One sweep over a minibatch is assumed density filtering, the adPredictor of Graepel et al. 2010; more are expectation
propagation with the base as its prior (Minka 2001), in the order of the events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from streaminfer.families.special import log_ndtr
from streaminfer.models import binary_regression, probit_sites
from streaminfer.models.binary_regression import BinaryPosterior, BinaryRegression
from streaminfer.models.gaussian_weights import DiagonalWeights
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.options import Integer, Option, Section


@dataclass(frozen=True)
class ProbitRegression(BinaryRegression):
    """A filter. An event of weight p adds its site to the power p: p times the natural parameters that it would add."""

    kind: ClassVar[str] = "probit_regression"
    methods: ClassVar[tuple[str, ...]] = ("svb",)
    exactness: ClassVar[str] = "approximate"
    options: ClassVar[Section] = binary_regression.options(
        Option("sweeps", Integer(1, 100), "passes over a minibatch; 1 takes each event once, in order", 1)
    )

    sweeps: int

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> Self:
        return cls(**binary_regression.parts(options), sweeps=options["sweeps"])

    def absorb(self, base: BinaryPosterior, events: Matrix, weights: Vector | None = None) -> Vector:
        rows, signs = self.design(events)
        times = np.ones(len(events)) if weights is None else weights
        if isinstance(base.weights, DiagonalWeights):
            return probit_sites.diagonal(base.weights, rows, signs, times, self.sweeps)
        return probit_sites.full(base.weights, rows, signs, times, self.sweeps)

    def log_probability(self, means: Vector, deviations: Vector) -> Vector:
        """log Phi(mean / sqrt(1 + deviation^2))."""
        return log_ndtr(means / np.hypot(1, deviations))
