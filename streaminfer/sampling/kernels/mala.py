"""The Metropolis-adjusted Langevin algorithm (Roberts & Tweedie 1996), the exact parent of sgld.

theta' = theta + eps/2 C g + sqrt(eps) R z is accepted as in `mh`, by the density of this proposal both ways.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.density import Sloped
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.kernels import mh, sgld

ACCEPT: Final = 0.574
"""The part of proposals that should be accepted (Roberts & Rosenthal 1998)."""


class State(NamedTuple):
    """Position (d,) with its log density and gradient (d,), log of the size of steps, steps of learning it."""

    position: Vector
    log_density: float
    gradient: Vector
    log_size: float
    n_adapted: int


class Info(NamedTuple):
    """Proposals accepted and made, and likelihoods and gradients of single events that they took."""

    n_accepted: int
    n_proposed: int
    n_likelihood: int
    n_gradient: int


def init(density: Sloped, position: Vector, size: float) -> State:
    start = np.array(position, dtype=np.float64)
    value, slope = float(density.log_density(start[None])[0]), density.gradient(start[None])[0]
    return State(start, value, slope, math.log(size), 0)


def step(
    density: Sloped,
    state: State,
    rng: np.random.Generator,
    by: Preconditioner,
    adapting: bool = False,
    accept: float = ACCEPT,
) -> tuple[State, Info]:
    """One step; while `adapting` the size is learned by steps (n + 1)^-0.6, towards `accept`."""
    size = math.exp(state.log_size)
    noise = rng.standard_normal(len(state.position))
    uniform = math.log1p(-rng.random())
    with np.errstate(all="ignore"):
        proposed = sgld.step(state.position, state.gradient, noise, size, by)
        reached, slope = -math.inf, state.gradient
        if np.isfinite(proposed).all():
            reached, slope = float(density.log_density(proposed[None])[0]), density.gradient(proposed[None])[0]
        back = sgld.log_transition(state.position, proposed, slope, size, by)
        log_alpha = mh.log_acceptance(state.log_density, reached, back + 0.5 * float(noise @ noise))
    accepted = bool(uniform < log_alpha) and bool(np.isfinite(slope).all())
    after = state._replace(position=proposed, log_density=reached, gradient=slope) if accepted else state
    if adapting:
        gamma = (state.n_adapted + 1) ** -0.6
        log_size = state.log_size + gamma * (math.exp(log_alpha) - accept)
        after = after._replace(log_size=log_size, n_adapted=state.n_adapted + 1)
    return after, Info(int(accepted), 1, density.n, density.n)


def steps(
    density: Sloped,
    state: State,
    rng: np.random.Generator,
    count: int,
    by: Preconditioner,
    adapting: bool = False,
    accept: float = ACCEPT,
) -> tuple[State, Matrix, Info]:
    """A block of steps: the state after it, positions (count, d) and what it took."""
    positions, total = np.empty((count, len(state.position))), Info(0, 0, 0, 0)
    for t in range(count):
        state, info = step(density, state, rng, by, adapting, accept)
        positions[t] = state.position
        total = Info(*(a + b for a, b in zip(total, info, strict=True)))
    return state, positions, total
