"""Metropolis–Hastings with any proposal, and the adaptive random walk of Haario, Saksman & Tamminen (2001).

A proposal t' ~ q(. | t) is accepted with probability min(1, p(t') q(t | t') / (p(t) q(t' | t))).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, Protocol

import numpy as np

from streaminfer.families import matrices
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.density import Density

ACCEPT: Final = 0.234
"""The part of proposals that a random walk should have accepted (Roberts, Gelman & Gilks 1997)."""
_RIDGE: Final = 1e-6
"""A part of its own diagonal that the learned covariance gets, so that it never loses a direction."""


class Proposal(Protocol):
    """q(theta' | theta)."""

    def propose(self, theta: Vector, rng: np.random.Generator) -> Vector:
        """A draw from q(. | theta)."""

    def log_ratio(self, theta: Vector, proposed: Vector) -> float:
        """log q(theta | proposed) - log q(proposed | theta)."""


class RandomWalk(NamedTuple):
    """theta' = theta + scale L z, symmetric."""

    scale: float
    factor: Matrix

    def propose(self, theta: Vector, rng: np.random.Generator) -> Vector:
        return theta + self.scale * (self.factor @ rng.standard_normal(len(theta)))

    def log_ratio(self, theta: Vector, proposed: Vector) -> float:  # noqa: ARG002 (the same both ways)
        return 0.0


class Adaptation(NamedTuple):
    """What a random walk has learned: steps, mean (d,) and covariance (d, d) so far, and the log of its scale."""

    n: int
    mean: Vector
    cov: Matrix
    log_scale: float

    @property
    def proposal(self) -> RandomWalk:
        """Steps of 2.38 / sqrt(d) deviations, times the learned scale."""
        d = len(self.mean)
        return RandomWalk(math.exp(self.log_scale) * 2.38 / math.sqrt(d), matrices.cholesky(self.cov))


class State(NamedTuple):
    """Position (d,), its log density, and what the proposal has learned."""

    position: Vector
    log_density: float
    adaptation: Adaptation


class Info(NamedTuple):
    """Proposals accepted and made, and likelihoods of single events that they took."""

    n_accepted: int
    n_proposed: int
    n_likelihood: int


def init(density: Density, position: Vector, cov: Matrix | None = None, size: float = 1.0) -> State:
    """With a first covariance (d, d) of the random walk, such as that of the Laplace approximation."""
    d = len(position)
    start = np.array(position, dtype=np.float64)
    first = np.eye(d) if cov is None else np.array(cov, dtype=np.float64)
    adaptation = Adaptation(0, start.copy(), first, math.log(size))
    return State(start, float(density.log_density(start[None])[0]), adaptation)


def step(
    density: Density,
    state: State,
    rng: np.random.Generator,
    proposal: Proposal | None = None,
    adapting: bool = False,
    accept: float = ACCEPT,
) -> tuple[State, Info]:
    """One step by `proposal`, or by the random walk as it is learned, which goes on learning while `adapting`."""
    chosen: Proposal = state.adaptation.proposal if proposal is None else proposal
    proposed = chosen.propose(state.position, rng)
    reached = float(density.log_density(proposed[None])[0]) if np.isfinite(proposed).all() else -math.inf
    log_alpha = log_acceptance(state.log_density, reached, chosen.log_ratio(state.position, proposed))
    accepted = bool(math.log1p(-rng.random()) < log_alpha)
    after = state._replace(position=proposed, log_density=reached) if accepted else state
    if adapting:
        after = after._replace(adaptation=adapted(after.adaptation, after.position, math.exp(log_alpha), accept))
    return after, Info(int(accepted), 1, density.n)


def log_acceptance(before: float, after: float, log_ratio: float) -> float:
    """log of min(1, ratio). From a place of density 0 every step is taken, to one of density 0 none."""
    if after == -math.inf or math.isnan(log_ratio):
        return -math.inf
    return 0.0 if before == -math.inf else min(0.0, after - before + log_ratio)


def adapted(learned: Adaptation, position: Vector, alpha: float, accept: float) -> Adaptation:
    """One step of learning, by gamma = (n + 1)^-0.6, which falls to 0 but sums to infinity.

    S' = S + gamma ((theta - mu)(theta - mu)' - S) and mu' = mu + gamma (theta - mu), where the first covariance counts
    as 10 d steps; the log of the scale moves by gamma (alpha - accept).
    """
    d = len(position)
    gamma = (learned.n + 1) ** -0.6
    slower = (learned.n + 1 + 10 * d) ** -0.6
    away = position - learned.mean
    cov = learned.cov + slower * (np.outer(away, away) - learned.cov)
    cov[np.diag_indices(d)] += slower * _RIDGE * cov.diagonal()
    log_scale = learned.log_scale + gamma * (alpha - accept)
    return Adaptation(learned.n + 1, learned.mean + slower * away, cov, log_scale)


def steps(
    density: Density,
    state: State,
    rng: np.random.Generator,
    count: int,
    proposal: Proposal | None = None,
    adapting: bool = False,
    accept: float = ACCEPT,
) -> tuple[State, Matrix, Info]:
    """A block of steps: the state after it, positions (count, d) and what it took."""
    positions, total = np.empty((count, len(state.position))), Info(0, 0, 0)
    for t in range(count):
        state, info = step(density, state, rng, proposal, adapting, accept)
        positions[t] = state.position
        total = Info(*(a + b for a, b in zip(total, info, strict=True)))
    return state, positions, total
