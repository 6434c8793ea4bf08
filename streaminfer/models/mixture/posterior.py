"""The posterior of a mixture of Gaussians: weights ~ Dirichlet, and (mean_k, cov_k) ~ NIW of each component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import dirichlet
from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.families.special import psi
from streaminfer.models.conjugate import centred
from streaminfer.models.mixture import components
from streaminfer.models.mixture.components import Components
from streaminfer.models.model import Matrix, Moments, Predictions, Vector

_MOST_COVARIANCES: Final = 100
"""More components than these have no covariances of their weights, which would outgrow all else."""


@dataclass(frozen=True, slots=True, eq=False)
class MixturePosterior:
    """q(weights) prod q(mean_k, cov_k); `absorbed` are the expected moments of each component's events."""

    family: ClassVar[str] = "dirichlet-normal-inverse-wishart"

    prior: niw.Parameters
    concentration: Vector
    absorbed: centred.Rows
    components: Components

    @property
    def is_prior(self) -> bool:
        """Whether no component has events, so that none differs from another."""
        return not self.absorbed.n.any()

    @property
    def natural(self) -> Vector:
        """Sums of the prior's and the events' own terms: (kappa m + n xbar, ...)."""
        n, mean, _, scatter, _ = self.absorbed
        k, d = mean.shape
        second = scatter + n[:, None, None] * mean[:, :, None] * mean[:, None, :]
        increments = np.hstack([n[:, None] * mean, second.reshape(k, -1), n[:, None], n[:, None]])
        rows = niw.to_natural(self.prior) + increments
        return np.concatenate([[d], self.concentration, rows.ravel()])

    def expected_log_weights(self) -> Vector:
        """E log weight_k = psi(c_k) - psi(sum c) (Bishop 2006, 10.66)."""
        return np.asarray(psi(self.concentration) - psi(self.concentration.sum()), dtype=np.float64)

    def responsibilities(self, events: Matrix) -> Matrix:
        """The best q(z = k) of each event (n, d), (K, n) (Bishop 2006, 10.46 to 10.49)."""
        densities = components.expected_log_densities(self.components, events)
        densities += self.expected_log_weights()[:, None]
        shares: Matrix = np.exp(densities - densities.max(axis=0))
        shares /= shares.sum(axis=0)
        return shares

    def moments(self) -> dict[str, Moments]:
        """Moments of a Dirichlet, of a t with dof - d + 1 degrees of freedom and of an inverse Wishart."""
        mean, kappa, dof, scale, _ = self.components
        d = mean.shape[1]
        beyond = dof - d - 1
        cov = np.where(beyond > 0, 1 / np.where(beyond > 0, beyond, 1.0), np.nan)[:, None, None] * scale
        located = np.where((dof > d)[:, None], mean, np.nan)
        sd = np.sqrt(cov.diagonal(axis1=1, axis2=2) / kappa[:, None])
        covs = Moments(cov, _inverse_wishart_sds(dof, scale))
        return {"weights": self._weights(), "means": Moments(located, sd), "covs": covs}

    def _weights(self) -> Moments:
        c, total = self.concentration, float(self.concentration.sum())
        mean = c / total
        sd = np.sqrt(mean * ((total - c) / total) / (1 + total))
        cov = (np.diag(mean) - np.outer(mean, mean)) / (1 + total) if len(c) <= _MOST_COVARIANCES else None
        return Moments(mean, sd, cov)

    def sample(self, rng: np.random.Generator, n: int) -> dict[str, NDArray[np.float64]]:
        weights = dirichlet.sample(dirichlet.Parameters(self.concentration), rng, n)
        factors = self.components.factor
        draws = [niw.sample_with(self.components.one(k), factors[k], rng, n) for k in range(len(factors))]
        means, covs = zip(*draws, strict=True)
        return {"weights": weights, "means": np.stack(means, axis=1), "covs": np.stack(covs, axis=1)}

    def log_predictive(self, events: Matrix) -> Vector:
        """log sum_k E[weight_k] t_k(x); t_k is the Student t of the model `gaussian` (Bishop 2006, 10.81)."""
        found = np.empty(len(events))
        for part, block in components.blocks(events, len(self.concentration)):
            logs = self._log_joint(block)
            largest = logs.max(axis=0)
            found[part] = largest + np.log(np.exp(logs - largest).sum(axis=0))
        return found

    def predict(self, inputs: Matrix, level: float) -> Predictions:  # noqa: ARG002 (a probability has no interval here)
        """The probability that a row is of component k, (n, K): its part in the sum of `log_predictive`.

        Unlike `responsibilities`, which learning needs, this counts that means and covariances are not known for sure.
        """
        found = np.empty((len(inputs), len(self.concentration)))
        for part, block in components.blocks(inputs, len(self.concentration)):
            logs = self._log_joint(block)
            shares = np.exp(logs - logs.max(axis=0))
            found[part] = (shares / shares.sum(axis=0)).T
        return {"responsibility": found}

    def _log_joint(self, events: Matrix) -> Matrix:
        """log E[weight_k] t_k(x), (K, n)."""
        shares = np.log(self.concentration) - np.log(self.concentration.sum())
        return np.asarray(components.log_predictives(self.components, events) + shares[:, None], dtype=np.float64)

    def log_evidence(self) -> float:
        """Not told by the statistics; see `GaussianMixture.elbo`."""
        return float("nan")


def _inverse_wishart_sds(dof: Vector, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """sqrt(((nu + 1) S_ij^2 + (nu - 1) S_ii S_jj) / (nu (nu - 1)^2 (nu - 3))), nu = dof - d; NaN unless nu > 3."""
    nu = dof - scale.shape[1]
    nu = np.where(nu > 3, nu, np.nan)[:, None, None]
    roots_of_diagonals = np.sqrt(scale.diagonal(axis1=1, axis2=2))
    sizes = roots_of_diagonals[:, :, None] * roots_of_diagonals[:, None, :]
    correlations = scale / sizes
    sds: NDArray[np.float64] = sizes * np.sqrt(((nu + 1) * correlations**2 + nu - 1) / (nu * (nu - 3))) / (nu - 1)
    return sds
