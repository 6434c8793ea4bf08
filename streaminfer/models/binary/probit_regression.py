"""Probit regression: P(y = 1) = Phi(w · z)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streaminfer.families.special import log_ndtr
from streaminfer.models.binary import regression
from streaminfer.models.binary.gaussian_weights import DiagonalWeights
from streaminfer.models.binary.local_steps import links, probit
from streaminfer.models.binary.regression import LOCAL, BinaryPosterior
from streaminfer.models.binary.site_regression import SiteRegression
from streaminfer.models.model import Absorbed, Matrix, Vector
from streaminfer.models.options import Integer, Option, OptionsError, Section

SWEEPS = 5


def _complete(options: dict[str, Any]) -> dict[str, Any]:
    """Sweeps are of the sequential step, which is chosen if a spec says how many."""
    usual = LOCAL[options["covariance"]][0] if options["sweeps"] is None else "sequential"
    local = options["local"] or usual
    return {**options, "local": local, "sweeps": options["sweeps"] or (SWEEPS if local == "sequential" else None)}


@dataclass(frozen=True)
class ProbitRegression(SiteRegression):
    """By expectation propagation or Laplace's approximation."""

    kind: ClassVar[str] = "probit_regression"
    methods: ClassVar[tuple[str, ...]] = ("svb", "svi", "memoized")
    link: ClassVar[links.Link] = staticmethod(links.probit)
    options: ClassVar[Section] = regression.options(
        regression.local_option(
            "sequential", "(one event after the other)", "expectation propagation, all events at once"
        ),
        Option(
            "sweeps",
            Integer(1, 100),
            f"Passes of the sequential step over a minibatch; 1 is assumed density filtering. Not set means {SWEEPS}.",
            None,
        ),
        complete=_complete,
    )

    @classmethod
    def build(cls, options: Mapping[str, Any]) -> ProbitRegression:
        regression.check_local(options, "sequential")
        parts = regression.parts(options)
        if options["local"] == "sequential":
            return SequentialProbitRegression(**parts, sweeps=options["sweeps"])
        if options["sweeps"] is not None:
            rule = f"means nothing with local: {options['local']}, only with sequential: leave it out"
            raise OptionsError("sweeps", rule, options["sweeps"])
        return (ProbitRegression if options["covariance"] == "full" else DiagonalProbitRegression)(**parts)

    def log_probability(self, means: Vector, deviations: Vector) -> Vector:
        """log Phi(mean / sqrt(1 + deviation^2))."""
        return log_ndtr(means / np.hypot(1, deviations))


@dataclass(frozen=True)
class DiagonalProbitRegression(ProbitRegression):
    """With independent weights."""

    methods: ClassVar[tuple[str, ...]] = ("svb",)


@dataclass(frozen=True)
class SequentialProbitRegression(ProbitRegression):
    """One event after the other: with one sweep the adPredictor of Graepel et al. 2010, with more the expectation
    propagation of Minka 2001. An event of weight p adds p times the natural parameters that it would add."""

    methods: ClassVar[tuple[str, ...]] = ("svb",)

    sweeps: int

    def absorb(self, base: BinaryPosterior, events: Matrix, weights: Vector | None = None) -> Absorbed:
        rows, signs = self.design(events)
        times = np.ones(len(events)) if weights is None else weights
        if isinstance(base.weights, DiagonalWeights):
            return Absorbed(probit.diagonal(base.weights, rows, signs, times, self.sweeps), converged=True)
        return Absorbed(probit.full(base.weights, rows, signs, times, self.sweeps), converged=True)
