"""Regressions of a 0/1 target by Gaussian sites, whatever the link."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streaminfer.models.binary.gaussian_weights import DiagonalWeights, FullWeights
from streaminfer.models.binary.local_steps import diagonal, full, quadrature
from streaminfer.models.binary.local_steps.links import Link
from streaminfer.models.binary.regression import BinaryPosterior, BinaryRegression
from streaminfer.models.model import Absorbed, Matrix, Vector


@dataclass(frozen=True)
class SiteRegression(BinaryRegression, ABC):
    """A filter of minibatches: each event becomes a Gaussian site (see `local_steps`).

    By svi the sites are expected ones. A site that is surer than it may be makes the next base too sure, and
    streaming compounds that into a wrong mean.
    """

    exactness: ClassVar[str] = "approximate"
    link: ClassVar[Link]

    def absorb(self, base: BinaryPosterior, events: Matrix, weights: Vector | None = None) -> Absorbed:
        rows, signs = self.design(events)
        times = np.ones(len(events)) if weights is None else weights
        if isinstance(base.weights, DiagonalWeights):
            return diagonal.gaussian(self.link, base.weights, rows, signs, times)
        return full.LOCAL[self.local](self.link, base.weights, rows, signs, times)

    def expected(self, q: BinaryPosterior, events: Matrix, weights: Vector | None = None) -> Vector:
        """The natural gradient of the expected log-likelihood."""
        rows, signs = self.design(events)
        times = np.ones(len(events)) if weights is None else weights
        means, variances = signs * (rows @ q.weights.mean), q.weights.deviations(rows) ** 2
        found = quadrature.expected(self.link, means, variances, times, tilted=False)
        if isinstance(q.weights, FullWeights):
            return full.Sites(found.slope + found.bend * means, found.bend).change(rows, signs)
        added = found.bend @ (rows * rows)
        return np.concatenate([(found.slope * signs) @ rows + added * q.weights.mean, added])

    def elbo(self, q: BinaryPosterior, events: Matrix) -> float:
        """sum of E[log f(s a)] less KL(q || prior)."""
        rows, signs = self.design(events)
        means, variances = signs * (rows @ q.weights.mean), q.weights.deviations(rows) ** 2
        levels = quadrature.expected(self.link, means, variances, np.ones(len(rows)), tilted=False).log
        return float(levels.sum()) - q.weights.divergence()
