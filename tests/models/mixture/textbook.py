"""A mixture of Gaussians by Bishop (2006), section 10.2, in plain sums, and by enumeration: what ours is checked by."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from streaminfer.families import dirichlet, mixture
from tests.models.examples import build


class State(NamedTuple):
    """alpha (K,), beta (K,), m (K, d), W (K, d, d) and nu (K,) of Bishop."""

    alpha: np.ndarray
    beta: np.ndarray
    m: np.ndarray
    W: np.ndarray
    nu: np.ndarray


def state(q: Any) -> State:
    mean, kappa, dof, scale, _ = q.components
    return State(q.concentration, kappa, mean, np.linalg.inv(scale), dof)


def responsibilities(at: State, x: np.ndarray) -> np.ndarray:
    """(n, K): 10.46, 10.49, 10.64, 10.65 and 10.66."""
    n, d = x.shape
    logs = np.empty((n, len(at.alpha)))
    for k in range(len(at.alpha)):
        log_weight = special.digamma(at.alpha[k]) - special.digamma(at.alpha.sum())
        log_precision = sum(special.digamma((at.nu[k] - i) / 2) for i in range(d))
        log_precision += d * np.log(2) + np.log(np.linalg.det(at.W[k]))
        for i in range(n):
            away = x[i] - at.m[k]
            distance = d / at.beta[k] + at.nu[k] * away @ at.W[k] @ away
            logs[i, k] = log_weight + 0.5 * log_precision - 0.5 * d * np.log(2 * np.pi) - 0.5 * distance
    return np.exp(logs - special.logsumexp(logs, axis=1, keepdims=True))


def step(model: Any, at: State, x: np.ndarray) -> State:
    """One round of coordinate ascent: 10.51 to 10.53, then 10.58 and 10.60 to 10.63."""
    r = responsibilities(at, x)
    prior = model.prior
    alpha, beta, m, W, nu = [], [], [], [], []
    for k in range(r.shape[1]):
        N = r[:, k].sum()
        mean = sum(r[i, k] * x[i] for i in range(len(x))) / N
        S = sum(r[i, k] * np.outer(x[i] - mean, x[i] - mean) for i in range(len(x))) / N
        alpha.append(model.concentration[k] + N)
        beta.append(prior.kappa + N)
        m.append((prior.kappa * prior.mean + N * mean) / beta[-1])
        shift = np.outer(mean - prior.mean, mean - prior.mean)
        W.append(np.linalg.inv(prior.scale + N * S + prior.kappa * N / beta[-1] * shift))
        nu.append(prior.dof + N)
    return State(*map(np.array, (alpha, beta, m, W, nu)))


class Assignment(NamedTuple):
    """One z (n,): log p(x, z), and the posterior of all parameters given it."""

    z: np.ndarray
    log_joint: float
    posterior: mixture.Parameters


def assignments(model: Any, x: np.ndarray) -> list[Assignment]:
    """All K^n of them, each by the conjugate models."""
    prior = {"mean": list(model.mean), "kappa": model.kappa, "dof": model.dof, "scale": list(model.scale_diagonal)}
    gaussian = build("gaussian", fields=list(model.names), prior=prior)
    concentration = np.array(model.concentration)
    start = dirichlet.log_normaliser(dirichlet.Parameters(concentration))
    found = []
    for z in map(np.array, product(range(model.components), repeat=len(x))):
        counts = np.bincount(z, minlength=model.components)
        groups = [x[z == k] for k in range(model.components)]
        each = [gaussian.posterior(gaussian.statistics(g) if len(g) else gaussian.empty()) for g in groups]
        weights = dirichlet.Parameters(concentration + counts)
        log_joint = dirichlet.log_normaliser(weights) - start + sum(one.log_evidence() for one in each)
        mean, kappa, dof, scale = map(np.array, zip(*(one.parameters for one in each), strict=True))
        found.append(Assignment(z, log_joint, mixture.Parameters(weights.concentration, mean, kappa, dof, scale)))
    return found


def log_evidence(found: list[Assignment]) -> float:
    return float(special.logsumexp([each.log_joint for each in found]))


def divergence(q: Any, x: np.ndarray, found: list[Assignment]) -> float:
    """KL(q(z) q(parameters) || p(z, parameters | x)).

    The sum over z of q(z) (log q(z) - log p(z | x) + KL(q(parameters) || p(parameters | z, x))).
    """
    shares = responsibilities(state(q), x)
    mean, kappa, dof, scale, _ = q.components
    parameters = mixture.Parameters(q.concentration, mean, kappa, dof, scale)
    evidence, total = log_evidence(found), 0.0
    for z, log_joint, posterior in found:
        share = np.prod(shares[range(len(x)), z])
        if share > 0:
            total += share * (np.log(share) - (log_joint - evidence) + mixture.kl(parameters, posterior))
    return float(total)
