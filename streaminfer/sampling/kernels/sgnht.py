"""Stochastic gradient Nosé–Hoover thermostat (Ding et al. 2014), with a thermostat for each coordinate.

In the coordinates R^-1 theta, with momentum p of unit mass and thermostat x: a kick p + h g, half a drift h/2 p,
x + h/2 (p^2 - 1), friction and noise p e^-xh + sqrt(A (1 - e^-2xh) / x) z, x + h/2 (p^2 - 1), half a drift: the
splitting of Leimkuhler & Shang (2016) with the two kicks at one place joined. The friction x finds the gradient
noise by itself: its mean is A + h V / 2, and the variance of positions stays right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.gradients.minibatches import Indices
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.kernels import chain, fast
from streaminfer.sampling.kernels.chain import Dynamics, Info, StepBlock, Tally


class State(NamedTuple):
    """Position, momentum and thermostat (d,), number of steps, how many of the last were undone in a row."""

    position: Vector
    momentum: Vector
    thermostat: Vector
    n_steps: int
    undone: int


def init(position: Vector, rng: np.random.Generator, friction: float = 1.0) -> State:
    """With a momentum from N(0, I), and thermostats where they are without gradient noise."""
    d = len(position)
    return State(np.array(position, dtype=np.float64), rng.standard_normal(d), np.full(d, friction), 0, 0)


def step(
    position: Vector,
    momentum: Vector,
    thermostat: Vector,
    gradient: Vector,
    noise: Vector,
    size: float,
    by: Preconditioner,
    friction: float = 1.0,
) -> tuple[Vector, Vector, Vector]:
    """One step from a gradient (d,) and standard noise (d,); `friction` is A."""
    kicked = momentum + size * by.whiten(gradient)
    warmer = thermostat + 0.5 * size * (kicked**2 - 1)
    drop = np.expm1(-warmer * size)
    spread = np.where(warmer == 0, 2 * size, -drop * (2 + drop) / np.where(warmer == 0, 1.0, warmer))
    after = (1 + drop) * kicked + np.sqrt(friction * spread) * noise
    moved = position + by.spread(0.5 * size * (kicked + after))
    return moved, after, warmer + 0.5 * size * (after**2 - 1)


def steps(
    dynamics: Dynamics, state: State, rng: np.random.Generator, count: int = 64, friction: float = 1.0
) -> tuple[State, StepBlock, Info]:
    """A block of steps."""
    d, tally = len(state.position), Tally(state.undone)
    indices = dynamics.minibatches.indices(rng, state.n_steps, count)
    noise, sizes = rng.standard_normal((count, d)), dynamics.schedule.sizes(state.n_steps, count)
    path, momentum, thermostat = np.empty((count + 1, d)), state.momentum.copy(), state.thermostat.copy()
    path[0] = state.position
    given = fast.given(dynamics.gradients)
    if given is not None:
        rows, link, *rest = given
        root = dynamics.preconditioner.root
        matrices = (chain.as_rows(root), chain.as_rows(root.T))
        changed = (momentum, thermostat, path, tally.counts)
        fast.loops().sgnht(rows, link, indices, *rest, *matrices, sizes, friction, noise, *changed)
    else:
        _loop(dynamics, indices, noise, sizes, friction, momentum, thermostat, path, tally)
    after = State(path[-1].copy(), momentum, thermostat, state.n_steps + count, int(tally.counts[0]))
    return after, StepBlock(path[1:], sizes), chain.info(dynamics, indices, tally)


def _loop(
    dynamics: Dynamics,
    indices: Indices,
    noise: Matrix,
    sizes: Vector,
    friction: float,
    momentum: Vector,
    thermostat: Vector,
    path: Matrix,
    tally: Tally,
) -> None:
    """The same without numba; changes momentum and thermostat in place."""
    with np.errstate(all="ignore"):
        for t, batch in enumerate(indices):
            gradient = dynamics.gradients(path[t], batch)
            by = dynamics.preconditioner
            moved = step(path[t], momentum, thermostat, gradient, noise[t], sizes[t], by, friction)
            good = tally.keep(*moved)
            path[t + 1] = moved[0] if good else path[t]
            if good:
                momentum[:], thermostat[:] = moved[1], moved[2]
