"""Metropolis–Hastings whose decisions read as many events as they need (Korattikara et al. 2014, Bardenet et al. 2014).

With log u drawn first, a proposal is accepted if the mean of r_n over all events is above
(log u - log of the ratio of all that is known without events) / N. r_n is the change of an event's log likelihood, or
with control variates that of what Taylor's expansion leaves out of it (Bardenet, Doucet & Holmes 2017). A rule says
when the mean over a subset tells that. If none does, all events decide, and exactly as `mh` does.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.gradients.minibatches import Indices
from streaminfer.sampling.kernels import mh, poisson_mh
from streaminfer.sampling.kernels.poisson_mh import Decision, Info, State
from streaminfer.sampling.settings import Stopping
from streaminfer.sampling.subsets import deciding
from streaminfer.sampling.subsets.proxy import Proxy
from streaminfer.sampling.subsets.shuffling import Shuffled

init = poisson_mh.init


class Subsets(NamedTuple):
    """What decisions are made by: a proxy, a rule, the size of a first batch, and an order of all events."""

    proxy: Proxy
    test: Stopping
    first: int
    order: Shuffled


def subsets(proxy: Proxy, test: Stopping, first: int) -> Subsets:
    n = proxy.density.n
    return Subsets(proxy, test, min(first, n), Shuffled(n))


def decide(
    by: Subsets, state: State, proposed: Vector, level: float, picks: np.random.Generator, log_ratio: float = 0.0
) -> Decision:
    """Of a proposal (d,), accepted if `level`, the log of a uniform number, is below what is here `log_alpha`.

    That is an estimate from a subset, and may be above 0.
    """
    proxy, density, theta = by.proxy, by.proxy.density, state.position
    if math.isnan(log_ratio) or not np.isfinite(proposed).all():
        return Decision(-math.inf, None, None, 0, 0)
    prior = density.target.log_prior(np.stack([theta, proposed]))
    smooth = density.share * float(prior[1] - prior[0]) + proxy.expansion.change(theta, proposed) + log_ratio
    if not math.isfinite(smooth):
        return poisson_mh.by_all(proxy, state, proposed, log_ratio)
    most = _most(by, theta, proposed)
    found = deciding.decide(
        lambda events: _values(proxy, theta, proposed, events, most), (level - smooth) / density.n, by.test, by.first,
        by.order, density.n, picks, None if most is None else proxy.largest * most,
    )  # fmt: skip
    if found.enough:
        return Decision(smooth + density.n * found.mean, None, None, proxy.cost * found.n_read, found.n_read)
    exact = poisson_mh.by_all(proxy, state, proposed, log_ratio)
    return exact._replace(n_likelihood=exact.n_likelihood + proxy.cost * found.n_read)


def _most(by: Subsets, theta: Vector, proposed: Vector) -> float | None:
    """M of the bounds c_n M, if the rule needs it."""
    if by.test.rule == "t":
        return None
    return by.proxy.most(by.proxy.white(theta), by.proxy.white(proposed))


def _values(proxy: Proxy, theta: Vector, proposed: Vector, events: Indices, most: float | None) -> Vector:
    if most is None:
        return proxy.changes(theta, proposed, events)
    return proxy.bounded_changes(theta, proposed, events, most)[0]


def step(
    by: Subsets,
    state: State,
    rng: np.random.Generator,
    picks: np.random.Generator,
    proposal: mh.Proposal | None = None,
    adapting: bool = False,
    accept: float = mh.ACCEPT,
    directions: bool = True,
) -> tuple[State, Info]:
    """One step by `proposal`, or by the random walk as it is learned. `picks` are the random numbers of subsets."""
    chosen: mh.Proposal = state.adaptation.proposal if proposal is None else proposal
    proposed = chosen.propose(state.position, rng)
    level = math.log1p(-rng.random())
    decision = decide(by, state, proposed, level, picks, chosen.log_ratio(state.position, proposed))
    accepted = bool(level < decision.log_alpha)
    after = poisson_mh.moved(state, proposed, decision, accepted)
    if adapting:
        alpha = math.exp(min(0.0, decision.log_alpha))
        after = after._replace(adaptation=mh.adapted(after.adaptation, after.position, alpha, accept, directions))
    return after, Info(int(accepted), 1, decision.n_likelihood, decision.n_read)


def steps(
    by: Subsets,
    state: State,
    rng: np.random.Generator,
    picks: np.random.Generator,
    count: int,
    proposal: mh.Proposal | None = None,
    adapting: bool = False,
    accept: float = mh.ACCEPT,
    directions: bool = True,
) -> tuple[State, Matrix, Info]:
    """A block of steps: the state after it, positions (count, d) and what it took."""
    positions, total = np.empty((count, len(state.position))), Info()
    if proposal is None and not adapting:
        proposal = state.adaptation.proposal
    for t in range(count):
        state, info = step(by, state, rng, picks, proposal, adapting, accept, directions)
        positions[t] = state.position
        total = total.plus(info)
    return state, positions, total
