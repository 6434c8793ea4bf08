"""A mixture of Gaussians, the components' memberships summed out.

theta = (weights as in `simplex`, then mean and triangle of each component as in `precision`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.models.conjugate import centred
from streaminfer.models.mixture import components, seeding
from streaminfer.models.mixture.gaussian_mixture import GaussianMixture as Model
from streaminfer.models.mixture.posterior import MixturePosterior
from streaminfer.models.model import Matrix, Predictions, Vector
from streaminfer.models.targets import averages, parts
from streaminfer.models.targets.kinds import precision, simplex
from streaminfer.models.targets.target import Drawn, Parameters

Array = NDArray[np.float64]
_GUESSED: Final = 4096
"""Rows at most from which the start is guessed."""


class Parts(NamedTuple):
    """log weights (..., K), means (..., K, d) and factors (..., K, d, d)."""

    logs: Array
    means: Array
    lower: Array


class GaussianMixture:
    """Gibbs: memberships given all else, weights and components given the memberships."""

    blocks: ClassVar[tuple[str, ...]] = ("memberships", "weights", "components")
    weighs: ClassVar[bool] = True

    def __init__(self, model: Model) -> None:
        self.model, self.prior = model, model.prior
        self.concentration = np.array(model.concentration)

    @classmethod
    def of(cls, model: Model) -> Self:
        return cls(model)

    @property
    def columns(self) -> int:
        return len(self.prior.mean)

    @property
    def dimension(self) -> int:
        k = len(self.concentration)
        return k - 1 + k * (self.columns + precision.size(self.columns))

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        k, d = len(self.concentration), self.columns
        return {"weights": (k,), "means": (k, d), "covs": (k, d, d)}

    def rows(self, events: Matrix) -> Matrix:
        return events

    def _split(self, theta: Array) -> Parts:
        k, d = len(self.concentration), self.columns
        each = theta[..., k - 1 :].reshape(*theta.shape[:-1], k, d + precision.size(d))
        return Parts(simplex.logs(theta[..., : k - 1]), each[..., :d], precision.factors(each[..., d:], d))

    def _joined(self, weights: Array, each: Array) -> Array:
        return np.concatenate([weights, each.reshape(*each.shape[:-2], math.prod(each.shape[-2:]))], axis=-1)

    def _log_joint(self, at: Parts, rows: Matrix) -> Array:
        """log weight_k N(x | k), (..., K, n)."""
        return at.logs[..., None] + precision.log_densities(at.means, at.lower, rows)

    def _shares(self, at: Parts, rows: Matrix) -> Array:
        """The probability of each component, (..., K, n)."""
        joint = self._log_joint(at, rows)
        shares = np.exp(joint - joint.max(axis=-2, keepdims=True))
        return np.asarray(shares / shares.sum(axis=-2, keepdims=True), dtype=np.float64)

    def log_likelihood(self, theta: Matrix, rows: Matrix) -> Matrix:
        joint = self._log_joint(self._split(theta), rows)
        largest = joint.max(axis=-2)
        return np.asarray(largest + np.log(np.exp(joint - largest[:, None]).sum(axis=-2)), dtype=np.float64)

    def gradient(self, theta: Matrix, rows: Matrix, weights: Vector | None = None) -> Matrix:
        """Every row counts in a component by its share of it."""
        at = self._split(theta)
        shares = self._shares(at, rows)
        shares = shares if weights is None else shares * weights
        n, E, A = precision.deviations(at.means, rows, shares)
        by_weights = simplex.gradient(theta[:, : len(self.concentration) - 1], n)
        return self._joined(by_weights, precision.gradient(at.lower, n[..., None], E, A))

    def scores(self, theta: Vector, rows: Matrix) -> Matrix:
        at = self._split(theta)
        shares = self._shares(at, rows)
        each = np.stack([precision.scores(m, low, rows) for m, low in zip(at.means, at.lower, strict=True)], axis=1)
        by_weights = simplex.gradient(theta[None, : len(self.concentration) - 1], shares.T)
        return self._joined(by_weights, shares.T[:, :, None] * each)

    def curvature(self, theta: Vector, rows: Matrix, weights: Vector | None = None) -> Matrix:
        """That of all rows with known components, less the covariance of scores over components (Louis 1982)."""
        k, at = len(self.concentration), self._split(theta)
        times = np.ones(len(rows)) if weights is None else weights
        shares = self._shares(at, rows) * times
        n, E, A = precision.deviations(at.means, rows, shares)
        mean = self.scores(theta, rows)
        of_weights = simplex.curvature(theta[: k - 1], float(times.sum()))
        total = self._diagonal(of_weights, at.lower, n, E, A) + (times[:, None] * mean).T @ mean
        towards = (np.eye(k) - np.exp(at.logs))[:, : k - 1]
        for c, where in enumerate(self._places()):
            each = precision.scores(at.means[c], at.lower[c], rows)
            terms = np.hstack([np.broadcast_to(towards[c], (len(rows), k - 1)), each])
            total[np.ix_(where, where)] -= (shares[c][:, None] * terms).T @ terms
        return total

    def _places(self) -> list[NDArray[np.intp]]:
        """Where theta has the weights and one component, for each component."""
        k, size = len(self.concentration), self.columns + precision.size(self.columns)
        return [np.r_[: k - 1, k - 1 + c * size : k - 1 + (c + 1) * size] for c in range(k)]

    def _diagonal(self, by_weights: Matrix, lower: Array, n: Vector, E: Array, A: Array) -> Matrix:
        """The curvature of weights and components that know nothing of each other."""
        k, total = len(self.concentration), np.zeros((self.dimension,) * 2)
        total[: k - 1, : k - 1] = by_weights
        for c, where in enumerate(self._places()):
            total[np.ix_(where[k - 1 :], where[k - 1 :])] = precision.curvature(lower[c], n[c], E[c], A[c])
        return total

    def log_prior(self, theta: Matrix) -> Vector:
        at = self._split(theta)
        weights = simplex.log_density(theta[:, : len(self.concentration) - 1], self.concentration)
        return np.asarray(weights + precision.log_prior(at.means, at.lower, self.prior).sum(axis=-1), dtype=np.float64)

    def prior_gradient(self, theta: Matrix) -> Matrix:
        at = self._split(theta)
        each = precision.gradient(at.lower, *precision.prior_terms(at.means, self.prior))
        weights = simplex.gradient(theta[:, : len(self.concentration) - 1], self.concentration)
        return self._joined(weights, each)

    def log_posterior(self, posterior: MixturePosterior, theta: Matrix) -> Vector:
        at = self._split(theta)
        total = simplex.log_density(theta[:, : len(self.concentration) - 1], posterior.concentration)
        for c in range(len(self.concentration)):
            total = total + precision.log_prior(at.means[:, c], at.lower[:, c], posterior.components.one(c))
        return total

    def posterior_gradient(self, posterior: MixturePosterior, theta: Matrix) -> Matrix:
        at = self._split(theta)
        each = [
            precision.gradient(at.lower[:, c], *precision.prior_terms(at.means[:, c], posterior.components.one(c)))
            for c in range(len(self.concentration))
        ]
        weights = simplex.gradient(theta[:, : len(self.concentration) - 1], posterior.concentration)
        return self._joined(weights, np.stack(each, axis=1))

    def prior_curvature(self, theta: Vector) -> Matrix:
        k, at = len(self.concentration), self._split(theta)
        _, E, A = precision.prior_terms(at.means, self.prior)
        by_weights = simplex.curvature(theta[: k - 1], float(self.concentration.sum()))
        return self._diagonal(by_weights, at.lower, np.full(k, self.prior.kappa), E, A)

    def is_proper_prior(self, share: float) -> bool:
        """Whether prior^share is a density by itself."""
        return precision.is_proper(self.prior, share)

    def sample_prior(self, rng: np.random.Generator, n: int) -> Matrix:
        k, d = len(self.concentration), self.columns
        weights = simplex.sample(self.concentration, rng, n)
        means, covs = niw.sample(self.prior, rng, n * k)
        return self._from(weights, means.reshape(n, k, d), covs.reshape(n, k, d, d))

    def _from(self, weights: Array, means: Array, covs: Array) -> Array:
        """theta of weights as in `simplex`, means and covariances."""
        each = np.concatenate([means, precision.entries(precision.from_covs(covs))], axis=-1)
        return self._joined(weights, each)

    def guess(self, rows: Matrix) -> Vector:
        """Groups of k-means++ among some rows, each with its posterior's mean and the mode of its covariance."""
        k, d = len(self.concentration), self.columns
        some = np.asarray(rows[:: max(1, -(-len(rows) // _GUESSED))])
        groups = seeding.labels(some, None, k, self.model.seed) if len(some) else np.zeros(0, dtype=np.intp)
        of = self._absorbed(some, groups)
        scale = len(rows) / max(len(some), 1)
        weights = simplex.from_logs(np.log(self.concentration + scale * (of.kappa - self.prior.kappa)))
        return self._from(weights, of.mean, of.scale / (of.dof + d + 1)[:, None, None])

    def _absorbed(self, rows: Matrix, groups: NDArray[np.intp]) -> components.Components:
        """The Normal-inverse-Wishart posterior of each group of rows."""
        k, d = len(self.concentration), self.columns
        total = self.model.empty().reshape(k, -1)
        for each in parts.slices(rows):
            total = centred.merge(total, centred.statistics_by(rows[each], groups[each], k), d)
        return self.model.posterior(total.ravel()).components

    def summary(self, rows: Matrix) -> None:  # noqa: ARG002 (memberships change all statistics)
        return None

    def tempers(self, share: float) -> bool:
        """A Normal-inverse-Wishart to a power, Jacobian included, is not one."""
        return share == 1

    def draw(self, block: str, at: Drawn, rows: Matrix, summary: Any, share: float, rng: np.random.Generator) -> Drawn:  # noqa: ARG002
        """The latent variables are the numbers of components, as float64."""
        if not self.tempers(share):
            raise ValueError(f"prior^{share:g} of a gaussian_mixture has no closed form: use another method")
        k, d = len(self.concentration), self.columns
        if block == "memberships":
            return at._replace(latent=self._memberships(self._split(at.theta), rows, rng))
        groups = at.latent.astype(np.intp)
        theta = at.theta.copy()
        if block == "weights":
            counts = np.bincount(groups, minlength=k)
            theta[: k - 1] = simplex.sample(self.concentration + counts, rng, 1)[0]
        else:
            of = self._absorbed(rows, groups)
            drawn = [niw.sample_with(of.one(c), of.factor[c], rng, 1) for c in range(k)]
            means, covs = (np.concatenate(each) for each in zip(*drawn, strict=True))
            theta = self._from(theta[: k - 1], means.reshape(k, d), covs)
        return at._replace(theta=theta)

    def _memberships(self, at: Parts, rows: Matrix, rng: np.random.Generator) -> Vector:
        """A component for each row, by its probabilities: the largest of the logs with Gumbel noise."""
        drawn = np.empty(len(rows))
        for each in parts.slices(rows, self.dimension):
            joint = self._log_joint(at, rows[each])
            drawn[each] = (joint + rng.gumbel(size=joint.shape)).argmax(axis=0)
        return drawn

    def constrain(self, theta: Matrix) -> Parameters:
        at = self._split(theta)
        return {"weights": np.exp(at.logs), "means": at.means.copy(), "covs": precision.covs(at.lower)}

    def unconstrain(self, parameters: Mapping[str, NDArray[np.float64]]) -> Matrix:
        weights = simplex.from_probabilities(parameters["weights"])
        return self._from(weights, parameters["means"], parameters["covs"])

    @property
    def is_exchangeable(self) -> bool:
        """Whether the prior is the same for all components."""
        return bool((self.concentration == self.concentration[0]).all())

    def predictions(self, parameters: Mapping[str, NDArray[np.float64]], inputs: Matrix, level: float) -> Predictions:  # noqa: ARG002 (a probability has no interval here)
        """The probability that a row is of component k, (n, K): the mean of weight_k N(x | k) over that of its sum."""
        at = self._split(self.unconstrain(parameters))
        found = np.empty((len(inputs), len(self.concentration)))
        for each in parts.slices(inputs, at.means.size):
            logs = averages.log_mean_exp(self._log_joint(at, inputs[each]))
            shares = np.exp(logs - logs.max(axis=0))
            found[each] = (shares / shares.sum(axis=0)).T
        return {"responsibility": found}
