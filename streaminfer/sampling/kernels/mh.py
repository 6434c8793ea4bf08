"""Metropolis–Hastings with any proposal, and the adaptive random walk of Haario, Saksman & Tamminen (2001).

A proposal t' ~ q(. | t) is accepted with probability min(1, p(t') q(t | t') / (p(t) q(t' | t))).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, Protocol

import numpy as np

from streaminfer.families import matrices
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.density import Evaluated

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
        return self.moved(theta, rng.standard_normal(len(theta)))

    def moved(self, theta: Vector, noise: Vector) -> Vector:
        """The proposal that standard noise (d,) leads to."""
        return theta + self.scale * (self.factor @ noise)

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


def init(density: Evaluated, position: Vector, cov: Matrix | None = None, size: float = 1.0) -> State:
    """With a first covariance (d, d) of the random walk, such as that of the Laplace approximation."""
    start = np.array(position, dtype=np.float64)
    return State(start, float(density.log_density(start[None])[0]), learning(start, cov, size))


def learning(position: Vector, cov: Matrix | None = None, size: float = 1.0) -> Adaptation:
    """What a random walk knows before its first step."""
    first = np.eye(len(position)) if cov is None else np.array(cov, dtype=np.float64)
    return Adaptation(0, np.array(position, dtype=np.float64), first, math.log(size))


def step(
    density: Evaluated,
    state: State,
    rng: np.random.Generator,
    proposal: Proposal | None = None,
    adapting: bool = False,
    accept: float = ACCEPT,
    directions: bool = True,
) -> tuple[State, Info]:
    """One step by `proposal`, or by the random walk as it is learned, which goes on learning while `adapting`.

    `directions` says whether the covariance of the walk is learned, and not only its scale.
    """
    chosen: Proposal = state.adaptation.proposal if proposal is None else proposal
    proposed = chosen.propose(state.position, rng)
    reached = float(density.log_density(proposed[None])[0]) if np.isfinite(proposed).all() else -math.inf
    log_alpha = log_acceptance(state.log_density, reached, chosen.log_ratio(state.position, proposed))
    accepted = bool(math.log1p(-rng.random()) < log_alpha)
    after = state._replace(position=proposed, log_density=reached) if accepted else state
    if adapting:
        learned = adapted(after.adaptation, after.position, math.exp(log_alpha), accept, directions)
        after = after._replace(adaptation=learned)
    return after, Info(int(accepted), 1, density.n)


def log_acceptance(before: float, after: float, log_ratio: float) -> float:
    """log of min(1, ratio). From a place of density 0 every step is taken, to one of density 0 none."""
    if after == -math.inf or math.isnan(log_ratio):
        return -math.inf
    return 0.0 if before == -math.inf else min(0.0, after - before + log_ratio)


def adapted(learned: Adaptation, position: Vector, alpha: float, accept: float, directions: bool = True) -> Adaptation:
    """One step of learning (Haario, Saksman & Tamminen 2001; Andrieu & Thoms 2008).

    S' = S + 2 ((theta - mu)(theta - mu)' - S) / m and mu' = mu + 2 (theta - mu) / m: the covariance of all m places so
    far, weighed by when they came, so that a first one that is far off is forgotten. It counts as 10 d places. Faster
    learning would forget all but the last places, which are few independent ones, and so lose directions. The log of
    the scale moves by (n + 1)^-0.6 (alpha - accept).
    """
    d = len(position)
    gamma = (learned.n + 1) ** -0.6
    log_scale = learned.log_scale + gamma * (alpha - accept)
    if not directions:
        return learned._replace(n=learned.n + 1, log_scale=log_scale)
    slower = 2 / (learned.n + 1 + 10 * d)
    away = position - learned.mean
    cov = learned.cov + slower * (np.outer(away, away) - learned.cov)
    cov[np.diag_indices(d)] += slower * _RIDGE * cov.diagonal()
    return Adaptation(learned.n + 1, learned.mean + slower * away, cov, log_scale)


def steps(
    density: Evaluated,
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
