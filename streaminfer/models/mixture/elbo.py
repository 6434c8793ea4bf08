"""The evidence lower bound of a mixture of Gaussians, term by term (Bishop 2006, 10.70)."""

from __future__ import annotations

import math

import numpy as np

from streaminfer.families import dirichlet, matrices
from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.families.special import xlogy
from streaminfer.models.mixture import components
from streaminfer.models.mixture.posterior import MixturePosterior
from streaminfer.models.model import Matrix, Vector


def elbo(q: MixturePosterior, prior: dirichlet.Parameters, events: Matrix) -> float:
    """E log p(x | z, means, covs) + E log p(z | weights) + H[q(z)] - KL(q || prior) of weights and components."""
    log_weights = dirichlet.expected_statistics(q.concentration)
    total = 0.0
    for _, block in components.blocks(events, len(log_weights)):
        shares = q.responsibilities(block)
        total += sum(float(share @ _log_densities(q, k, block)) for k, share in enumerate(shares))
        total += float(log_weights @ shares.sum(axis=1)) - float(xlogy(shares, shares).sum())
    return total - dirichlet.kl(dirichlet.Parameters(q.concentration), prior) - _divergence(q)


def _log_densities(q: MixturePosterior, k: int, events: Matrix) -> Vector:
    """E log N(x | mean_k, cov_k) of each event, from E log|cov| and E[(x - mean_k)' cov_k^-1 (x - mean_k)]."""
    mean, kappa, dof, _ = q.components.one(k)
    factor = q.components.factor[k]
    d = mean.size
    distances = d / kappa + dof * (matrices.solve_lower(factor, (events - mean).T) ** 2).sum(axis=0)
    log_det = niw.expected_log_determinant(dof, factor)
    return np.asarray(-0.5 * (d * math.log(2 * math.pi) + log_det + distances), dtype=np.float64)


def _divergence(q: MixturePosterior) -> float:
    """The sum over components of KL(q(mean_k, cov_k) || prior)."""
    factor = matrices.cholesky(q.prior.scale)
    each = enumerate(q.components.factor)
    return sum(niw.kl_with(q.components.one(k), of, q.prior, factor) for k, of in each)
