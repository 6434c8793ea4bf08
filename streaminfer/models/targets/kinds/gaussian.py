"""Gaussian events: theta = (mean, triangle of the precision's Cholesky factor), see `precision`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.models.conjugate.gaussian import Gaussian as Model
from streaminfer.models.conjugate.gaussian import GaussianPosterior
from streaminfer.models.model import Matrix, Predictions, Vector
from streaminfer.models.targets import averages, parts
from streaminfer.models.targets.kinds import precision
from streaminfer.models.targets.kinds.single import Whole
from streaminfer.models.targets.target import Parameters


class Gaussian(Whole):
    """A row is the event itself."""

    def __init__(self, model: Model) -> None:
        self.model, self.prior = model, model.prior

    @classmethod
    def of(cls, model: Model) -> Self:
        return cls(model)

    @property
    def columns(self) -> int:
        return len(self.prior.mean)

    @property
    def dimension(self) -> int:
        return self.columns + precision.size(self.columns)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"mean": (self.columns,), "cov": (self.columns, self.columns)}

    def rows(self, events: Matrix) -> Matrix:
        return events

    def _split(self, theta: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means (..., d) and factors (..., d, d)."""
        d = self.columns
        return theta[..., :d], precision.factors(theta[..., d:], d)

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        return precision.log_densities(*self._split(theta), rows)

    def gradient(self, theta: Matrix, rows: Matrix, weights: Vector | None = None) -> Matrix:
        means, lower = self._split(theta)
        n, E, A = precision.deviations(means, rows, weights)
        return precision.gradient(lower, n[:, None], E, A)

    def scores(self, theta: Vector, rows: Matrix) -> Matrix:
        return precision.scores(*self._split(theta), rows)

    def curvature(self, theta: Vector, rows: Matrix, weights: Vector | None = None) -> Matrix:
        mean, lower = self._split(theta)
        n, E, A = precision.deviations(mean, rows, weights)
        return precision.curvature(lower, float(n), E, A)

    def log_prior(self, theta: Matrix) -> Vector:
        return precision.log_prior(*self._split(theta), self.prior)

    def prior_gradient(self, theta: Matrix) -> Matrix:
        means, lower = self._split(theta)
        return precision.gradient(lower, *precision.prior_terms(means, self.prior))

    def log_posterior(self, posterior: GaussianPosterior, theta: Matrix) -> Vector:
        return precision.log_prior(*self._split(theta), posterior.parameters)

    def posterior_gradient(self, posterior: GaussianPosterior, theta: Matrix) -> Matrix:
        means, lower = self._split(theta)
        return precision.gradient(lower, *precision.prior_terms(means, posterior.parameters))

    def prior_curvature(self, theta: Vector) -> Matrix:
        mean, lower = self._split(theta)
        _, E, A = precision.prior_terms(mean, self.prior)
        return precision.curvature(lower, self.prior.kappa, E, A)

    def is_proper_prior(self, share: float) -> bool:
        """Whether prior^share is a density by itself."""
        return precision.is_proper(self.prior, share)

    def sample_prior(self, rng: np.random.Generator, n: int) -> Matrix:
        mean, cov = niw.sample(self.prior, rng, n)
        return self.unconstrain({"mean": mean, "cov": cov})

    def guess(self, rows: Matrix) -> Vector:
        """The posterior's mean and the mode of its covariance."""
        mean, _, dof, scale = self.summary(rows).parameters
        return self.unconstrain({"mean": mean[None], "cov": (scale / (dof + self.columns + 1))[None]}).ravel()

    def summary(self, rows: Matrix) -> GaussianPosterior:
        """The posterior by the model's own statistics."""
        total = self.model.empty()
        for part in parts.of(rows):
            total = self.model.merge(total, self.model.statistics(part))
        return self.model.posterior(total)

    def tempers(self, share: float) -> bool:
        """A Normal-inverse-Wishart to a power, Jacobian included, is not one."""
        return share == 1

    def sample_posterior(self, summary: GaussianPosterior, share: float, rng: np.random.Generator) -> Vector:
        if not self.tempers(share):
            raise ValueError(f"prior^{share:g} of a gaussian model has no closed form: use another method")
        return self.unconstrain(summary.sample(rng, 1)).ravel()

    def constrain(self, theta: Matrix) -> Parameters:
        means, lower = self._split(theta)
        return {"mean": means.copy(), "cov": precision.covs(lower)}

    def unconstrain(self, parameters: Mapping[str, NDArray[np.float64]]) -> Matrix:
        return np.hstack([parameters["mean"], precision.entries(precision.from_covs(parameters["cov"]))])

    def predictions(self, parameters: Mapping[str, NDArray[np.float64]], inputs: Matrix, level: float) -> Predictions:
        """Mean, sd and interval of each field of a new event."""
        variances = parameters["cov"].diagonal(axis1=1, axis2=2)
        found = averages.normals(parameters["mean"].T, np.sqrt(variances).T, level)
        return {name: np.tile(values, (len(inputs), 1)) for name, values in found.items()}
