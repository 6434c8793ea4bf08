"""Gibbs sampling: one block after the other given all others, by a target's own conditional draws.

A systematic scan takes the blocks in their order; a random scan in an order that each step draws anew, which makes the
chain reversible.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.target import Drawn

Scan = Literal["systematic", "random"]


class State(NamedTuple):
    """Position (d,) and latent variables (n,): (0,) of a systematic scan, which begins with drawing them."""

    position: Vector
    latent: NDArray[np.float64]


class Info(NamedTuple):
    """Likelihoods of single events, or work of that size, that the draws took."""

    n_likelihood: int


def init(density: Density, position: Vector, rng: np.random.Generator, scan: Scan = "systematic") -> State:
    """A random scan may begin with any block, so it needs latent variables, which are drawn here."""
    state = State(np.array(position, dtype=np.float64), np.empty(0))
    target = density.target
    if scan == "systematic" or len(target.blocks) == 1:
        return state
    at = Drawn(state.position, state.latent)
    at = target.draw(target.blocks[0], at, density.rows, density.summary, density.share, rng)
    return State(state.position, at.latent)


def step(density: Density, state: State, rng: np.random.Generator, scan: Scan = "systematic") -> tuple[State, Info]:
    """One scan over all blocks."""
    target, at = density.target, Drawn(state.position, state.latent)
    order = range(len(target.blocks)) if scan == "systematic" else rng.permutation(len(target.blocks))
    for i in order:
        at = target.draw(target.blocks[i], at, density.rows, density.summary, density.share, rng)
    latent = np.empty(0) if scan == "systematic" else at.latent
    return State(at.theta, latent), Info(density.n)


def steps(
    density: Density, state: State, rng: np.random.Generator, count: int, scan: Scan = "systematic"
) -> tuple[State, Matrix, Info]:
    """A block of scans: the state after it, positions (count, d) and what it took."""
    positions, total = np.empty((count, len(state.position))), 0
    for t in range(count):
        state, info = step(density, state, rng, scan)
        positions[t] = state.position
        total += info.n_likelihood
    return state, positions, Info(total)
