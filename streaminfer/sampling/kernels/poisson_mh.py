"""Exact Metropolis–Hastings on Poisson minibatches with control variates (Prado, Nemeth & Sherlock 2024).

Of every event n the remainder of Taylor's expansion changes by r_n, which is at most c_n M. A minibatch has each event
s_n times, s_n ~ Poisson(f_n), f_n = lambda c_n / C + (c_n M - r_n) / 2, lambda = chi (C M)^2, C the sum of c_n. On the
way back the rate is b_n, the same with + r_n. A proposal is accepted by the ratio of the expansion's density and of the
prior, times the product of (b_n / f_n)^s_n: so the posterior is the target. Order 0 is TunaMH (Zhang et al. 2020).

Poisson(lambda + C M) events are drawn by their c_n, and kept with the probability f_n / (lambda c_n / C + c_n M). If
their mean is N or more, the decision is made on all events: M is the same both ways, and so is this choice.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.kernels import mh
from streaminfer.sampling.kernels.mh import Adaptation
from streaminfer.sampling.subsets import fast
from streaminfer.sampling.subsets.proxy import Proxy

CHI: Final = 0.01
"""lambda by (C M)^2. More makes the ratio less noisy, and minibatches larger."""


class State(NamedTuple):
    """Position (d,), its log density if a decision on all events has told it, and what the proposal has learned."""

    position: Vector
    log_density: float
    known: bool
    adaptation: Adaptation


class Info(NamedTuple):
    """Proposals accepted and made, likelihoods of single events that they took, and events that they read."""

    n_accepted: int = 0
    n_proposed: int = 0
    n_likelihood: int = 0
    n_read: int = 0

    def plus(self, other: Info) -> Info:
        return Info(*(a + b for a, b in zip(self, other, strict=True)))


class Decision(NamedTuple):
    """The log of the chance of being accepted, the log density at both places if it is known, and the work."""

    log_alpha: float
    before: float | None
    after: float | None
    n_likelihood: int
    n_read: int


def init(position: Vector, cov: Matrix | None = None, size: float = 1.0) -> State:
    """As `mh.init`, without reading an event."""
    start = np.array(position, dtype=np.float64)
    return State(start, 0.0, False, mh.learning(start, cov, size))


def mean_events(total: float, chi: float = CHI) -> float:
    """lambda + C M, the mean size of a minibatch, of C M."""
    return chi * total * total + total


def rates(change: Vector, bounds: Vector, total: float, chi: float = CHI) -> tuple[Vector, Vector, Vector]:
    """f_n, b_n and the largest that either can be, of r_n and c_n M (m,) and of C M."""
    least = chi * total * bounds  # lambda c_n / C
    return least + 0.5 * (bounds - change), least + 0.5 * (bounds + change), least + bounds


def decide(
    proxy: Proxy,
    state: State,
    proposed: Vector,
    rng: np.random.Generator,
    log_ratio: float = 0.0,
    chi: float = CHI,
) -> Decision:
    """Of a proposal (d,) with log q(theta | theta') - log q(theta' | theta)."""
    density, theta = proxy.density, state.position
    if not np.isfinite(proposed).all():
        return Decision(-math.inf, None, None, 0, 0)
    most = proxy.most(proxy.white(theta), proxy.white(proposed))
    mean = mean_events(proxy.total * most, chi)
    if not mean < density.n:
        return by_all(proxy, state, proposed, log_ratio)
    prior = density.target.log_prior(np.stack([theta, proposed]))
    smooth = density.share * float(prior[1] - prior[0]) + proxy.expansion.change(theta, proposed) + log_ratio
    count = int(rng.poisson(mean))
    if math.isnan(smooth):
        return Decision(-math.inf, None, None, 0, 0)
    if count == 0:
        return Decision(min(0.0, smooth), None, None, 0, 0)
    uniform = rng.random((count, 2))
    change, bounds = proxy.bounded_changes(theta, proposed, proxy.pick(uniform[:, 0]), most)
    forth, back, largest = rates(change, bounds, proxy.total * most, chi)
    kept = uniform[:, 1] * largest < forth
    noise = float(np.log(back[kept] / forth[kept]).sum())
    return Decision(min(0.0, smooth + noise), None, None, proxy.cost * count, count)


def by_all(proxy: Proxy, state: State, proposed: Vector, log_ratio: float) -> Decision:
    """On all events, as `mh` decides."""
    density = proxy.density
    before = state.log_density if state.known else float(density.log_density(state.position[None])[0])
    after = float(density.log_density(proposed[None])[0])
    log_alpha = mh.log_acceptance(before, after, log_ratio)
    return Decision(log_alpha, before, after, density.n * (1 if state.known else 2), density.n)


def moved(state: State, proposed: Vector, decision: Decision, accepted: bool) -> State:
    """The state after a decision; a log density is kept if it is known where the chain is now."""
    position, log_density = (proposed, decision.after) if accepted else (state.position, decision.before)
    if log_density is None and not accepted and state.known:
        return state
    return state._replace(position=position, log_density=log_density or 0.0, known=log_density is not None)


def steps(
    proxy: Proxy,
    state: State,
    rng: np.random.Generator,
    count: int,
    adapting: bool = False,
    accept: float = mh.ACCEPT,
    chi: float = CHI,
    directions: bool = True,
) -> tuple[State, Matrix, Info]:
    """A block of steps by the random walk as it is learned: the state after it, positions (count, d), the work.

    `directions` says whether the covariance of the walk is learned, and not only its scale.
    """
    noise, levels = rng.standard_normal((count, len(state.position))), np.log1p(-rng.random(count))
    loop = None if adapting else fast.poisson_mh(proxy)
    if loop is not None:
        return _compiled(loop, state, rng, noise, levels, chi)
    positions, info, walk = np.empty(noise.shape), Info(), state.adaptation.proposal
    for t in range(count):
        proposed = walk.moved(state.position, noise[t])
        decision = decide(proxy, state, proposed, rng, chi=chi)
        accepted = bool(levels[t] < decision.log_alpha)
        state = moved(state, proposed, decision, accepted)
        if adapting:
            learned = mh.adapted(state.adaptation, state.position, math.exp(decision.log_alpha), accept, directions)
            state, walk = state._replace(adaptation=learned), learned.proposal
        positions[t] = state.position
        info = info.plus(Info(int(accepted), 1, decision.n_likelihood, decision.n_read))
    return state, positions, info


def _compiled(
    loop: fast.PoissonLoop,
    state: State,
    rng: np.random.Generator,
    noise: Matrix,
    levels: Vector,
    chi: float,
) -> tuple[State, Matrix, Info]:
    """The same as machine code."""
    walk = state.adaptation.proposal
    path = np.empty((len(noise) + 1, len(state.position)))
    path[0] = state.position
    known = np.array([state.log_density, float(state.known)])
    counts = np.zeros(4, dtype=np.int64)
    fault = loop(walk.scale * (noise @ walk.factor.T), levels, chi, rng, path, known, counts)
    if fault is not None:
        raise fault
    after = state._replace(position=path[-1].copy(), log_density=float(known[0]), known=bool(known[1]))
    return after, path[1:], Info(*(int(each) for each in counts))
