"""Stochastic gradient Langevin dynamics (Welling & Teh 2011).

theta' = theta + eps/2 C g + sqrt(eps) R z, z ~ N(0, I). C = R R' is the preconditioner, g an estimate of the gradient.
On a Gaussian with precision 1 in the coordinates R^-1 theta and gradient noise of variance V the stationary variance is
(1 + eps V / 4) / (1 - eps / 4).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streaminfer.models.model import Vector
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.gradients.minibatches import Indices
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.kernels import chain, fast
from streaminfer.sampling.kernels.chain import Dynamics, Info, StepBlock, Tally


class State(NamedTuple):
    """Position (d,), number of steps, how many of the last were undone in a row, mean squares for `rms` (d,)."""

    position: Vector
    n_steps: int
    undone: int
    squares: Vector


def init(position: Vector) -> State:
    return State(np.array(position, dtype=np.float64), 0, 0, np.zeros(len(position)))


def step(position: Vector, gradient: Vector, noise: Vector, size: float, by: Preconditioner) -> Vector:
    """One step from a gradient (d,) and standard noise (d,)."""
    moved: Vector = position + 0.5 * size * by.times(gradient) + np.sqrt(size) * by.spread(noise)
    return moved


def steps(
    dynamics: Dynamics, state: State, rng: np.random.Generator, count: int = 64, adapting: bool = False
) -> tuple[State, StepBlock, Info]:
    """A block of steps. Weights are the sizes of steps.

    While `adapting` the preconditioner is `rms`, of the gradients so far; afterwards it is that of `dynamics`.
    """
    indices = dynamics.minibatches.indices(rng, state.n_steps, count)
    noise = rng.standard_normal((count, len(state.position)))
    sizes, tally = dynamics.schedule.sizes(state.n_steps, count), Tally(state.undone)
    given = None if adapting else fast.given(dynamics.gradients)
    path, squares = np.empty((count + 1, len(state.position))), state.squares
    path[0] = state.position
    if given is not None:
        rows, link, *rest = given
        by, spread = dynamics.preconditioner, np.sqrt(sizes)[:, None] * dynamics.preconditioner.spread(noise)
        fast.loops().sgld(rows, link, indices, *rest, chain.as_rows(by.matrix), sizes, spread, path, tally.counts)
    else:
        squares = _loop(dynamics, squares, indices, noise, sizes, path, tally, adapting)
    after = State(path[-1].copy(), state.n_steps + count, int(tally.counts[0]), squares)
    return after, StepBlock(path[1:], sizes), chain.info(dynamics, indices, tally)


def _loop(
    dynamics: Dynamics,
    squares: Vector,
    indices: Indices,
    noise: Vector,
    sizes: Vector,
    path: Vector,
    tally: Tally,
    adapting: bool,
) -> Vector:
    """The same without numba, or while the preconditioner is learned; returns the mean squares."""
    by, n = dynamics.preconditioner, dynamics.gradients.density.n
    with np.errstate(all="ignore"):
        for t, batch in enumerate(indices):
            gradient = dynamics.gradients(path[t], batch)
            if adapting:
                squares = preconditioning.mean_square(squares, gradient, n)
                by = preconditioning.rms(squares, n)
            moved = step(path[t], gradient, noise[t], sizes[t], by)
            path[t + 1] = moved if tally.keep(moved) else path[t]
    return squares
