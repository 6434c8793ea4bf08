"""Batch variational Bayes of a hidden Markov chain, with its states' dependence kept or not: a reference.

z_1 ~ Categorical(pi), z_t | z_(t-1) = j ~ Categorical(A_j), x_t | z_t = k ~ N(mean_k, cov_k). pi and each A_j have
Dirichlet priors, each (mean_k, cov_k) has a Normal-inverse-Wishart prior. Structured mean field has q(z_1, ..., z_n),
found by forward-backward on expected log parameters (Beal 2003, chapter 3). Naive mean field has prod q(z_t) and a
lower bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families import dirichlet, matrices
from streaminfer.families import normal_inverse_wishart as niw
from streaminfer.families.special import xlogy
from streaminfer.models.conjugate import centred
from streaminfer.models.mixture import components, seeding
from streaminfer.models.mixture.components import Components
from streaminfer.models.model import Matrix, Vector


class Chain(NamedTuple):
    """The prior: concentrations of pi (K,) and of each row of A (K, K), and that of every state's Gaussian."""

    start: Vector
    transitions: Matrix
    emission: niw.Parameters


class Beliefs(NamedTuple):
    """q of the parameters, laid out as the prior; `emissions` are those of all states."""

    start: Vector
    transitions: Matrix
    emissions: Components


class States(NamedTuple):
    """q of the states: q(z_t = k) (n, K), and q(z_t = j, z_(t+1) = k) (n - 1, K, K)."""

    marginals: Matrix
    pairs: NDArray[np.float64]


class Logs(NamedTuple):
    """E log pi (K,), E log A (K, K) and E log N(x_t | mean_k, cov_k) (n, K)."""

    start: Vector
    transitions: Matrix
    densities: Matrix


class Fit(NamedTuple):
    """q of parameters and states, and the bound after each round."""

    beliefs: Beliefs
    states: States
    bounds: Vector


def fit(
    chain: Chain,
    events: Matrix,
    structured: bool = True,
    rounds: int = 50,
    seed: int = 0,
    beliefs: Beliefs | None = None,
) -> Fit:
    """Coordinate ascent on events (n, d) in their order, n >= 1, from `beliefs` or from the groups of `seeding`."""
    k = len(chain.start)
    states = independent(np.eye(k)[seeding.labels(events, None, k, seed)])
    if beliefs is None:
        beliefs = learned(chain, events, states)
    bounds = []
    for _ in range(rounds):
        logs = expected_logs(beliefs, events)
        states = forward_backward(logs)[0] if structured else naive(logs, states.marginals)
        beliefs = learned(chain, events, states)
        bounds.append(elbo(chain, beliefs, states, events))
    return Fit(beliefs, states, np.array(bounds))


def expected_logs(beliefs: Beliefs, events: Matrix) -> Logs:
    """What the best q of the states depends on."""
    transitions = np.stack([dirichlet.expected_statistics(row) for row in beliefs.transitions])
    densities = components.expected_log_densities(beliefs.emissions, events).T
    return Logs(dirichlet.expected_statistics(beliefs.start), transitions, densities)


def forward_backward(logs: Logs) -> tuple[States, float]:
    """The best q(z_1, ..., z_n) and the log of its normaliser.

    All is in logs, less the largest density of each event and the normaliser of each step. So nothing underflows, and
    an unlikely event costs the others no digits.
    """
    (n, k), shifts = logs.densities.shape, logs.densities.max(axis=1)
    densities, moves = logs.densities - shifts[:, None], logs.transitions
    forward, backward, scales = np.empty((n, k)), np.zeros((n, k)), np.empty(n)
    ahead = logs.start
    for t in range(n):
        joint = ahead + densities[t]
        scales[t] = np.logaddexp.reduce(joint)
        forward[t] = joint - scales[t]
        ahead = np.logaddexp.reduce(forward[t][:, None] + moves, axis=0)
    for t in range(n - 2, -1, -1):
        backward[t] = np.logaddexp.reduce(moves + (densities[t + 1] + backward[t + 1] - scales[t + 1]), axis=1)
    later = densities[1:] + backward[1:] - scales[1:, None]
    pairs = np.exp(forward[:-1, :, None] + moves + later[:, None, :])
    return States(np.exp(forward + backward), pairs), float(scales.sum() + shifts.sum())


def naive(logs: Logs, marginals: Matrix, sweeps: int = 5) -> States:
    """A better prod q(z_t) than given: every other event's q at once, as those depend on their neighbours alone.

    log q(z_t) = E log density + E over z_(t-1) of E log A + E over z_(t+1) of E log A + constant.
    """
    marginals = marginals.copy()
    for first in [0, 1] * sweeps:
        around = logs.densities.copy()
        around[0] += logs.start
        around[1:] += marginals[:-1] @ logs.transitions
        around[:-1] += marginals[1:] @ logs.transitions.T
        shares = np.exp(around[first::2] - around[first::2].max(axis=1, keepdims=True))
        marginals[first::2] = shares / shares.sum(axis=1, keepdims=True)
    return independent(marginals)


def independent(marginals: Matrix) -> States:
    """prod q(z_t): pairs are products."""
    return States(marginals, marginals[:-1, :, None] * marginals[1:, None, :])


def learned(chain: Chain, events: Matrix, states: States) -> Beliefs:
    """The best q of the parameters: concentrations with expected counts, Gaussians with expected moments."""
    moments = components.moments(events, states.marginals.T)
    emissions = components.absorbed(centred.examined(moments, events.shape[1])[0], chain.emission)
    return Beliefs(chain.start + states.marginals[0], chain.transitions + states.pairs.sum(axis=0), emissions)


def elbo(chain: Chain, beliefs: Beliefs, states: States, events: Matrix) -> float:
    """E log p(x, z | parameters) + H[q(z)] - KL(q(parameters) || prior), for any q of the states.

    H[q(z)] = H[z_1] + sum of H[z_(t+1) | z_t], from the entropies of pairs and of single states.
    """
    logs, (marginals, pairs) = expected_logs(beliefs, events), states
    joint = float((marginals * logs.densities).sum() + marginals[0] @ logs.start + (pairs * logs.transitions).sum())
    single = xlogy(marginals, marginals).sum(axis=1)
    entropy = float(single[:-1].sum() - xlogy(pairs, pairs).sum() - single[0])
    return joint + entropy - divergence(chain, beliefs)


def divergence(chain: Chain, beliefs: Beliefs) -> float:
    """KL(q(parameters) || prior), summed over pi, the rows of A and the Gaussians."""
    rows = zip([beliefs.start, *beliefs.transitions], [chain.start, *chain.transitions], strict=True)
    weights = sum(dirichlet.kl(dirichlet.Parameters(q), dirichlet.Parameters(p)) for q, p in rows)
    factor = matrices.cholesky(chain.emission.scale)
    each = enumerate(beliefs.emissions.factor)
    return weights + sum(niw.kl_with(beliefs.emissions.one(k), of, chain.emission, factor) for k, of in each)
