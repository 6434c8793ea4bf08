"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014) by a splitting, one gradient a step.

In the coordinates R^-1 theta, with velocity v of unit mass: a kick v + h g, half a drift h/2 v, friction and noise
v e^-Ch + sqrt((1 - B/C)(1 - e^-2Ch)) z, which is exact, and half a drift. The order is that of BAOAB (Leimkuhler &
Matthews 2013), with the two kicks at one place joined: positions of a Gaussian without gradient noise have the exact
variance. Gradient noise of variance V adds h V / 2 to the noise, of which `noise` B is an estimate.
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
    """Position and velocity (d,), number of steps, how many of the last were undone in a row."""

    position: Vector
    velocity: Vector
    n_steps: int
    undone: int


def init(position: Vector, by: Preconditioner, rng: np.random.Generator) -> State:
    """With a velocity from its stationary distribution, N(0, C)."""
    velocity = by.spread(rng.standard_normal(len(position)))
    return State(np.array(position, dtype=np.float64), velocity, 0, 0)


def step(
    position: Vector,
    velocity: Vector,
    gradient: Vector,
    noise: Vector,
    size: float,
    by: Preconditioner,
    friction: float = 1.0,
    estimate: float = 0.0,
) -> tuple[Vector, Vector]:
    """One step from a gradient (d,) and standard noise (d,); `estimate` is B."""
    spread = _deviation(size, friction, estimate) * by.spread(noise)
    return _moved(position, velocity, by.times(gradient), spread, size, np.exp(-friction * size))


def _moved(
    position: Vector, velocity: Vector, force: Vector, spread: Vector, size: float, decay: float
) -> tuple[Vector, Vector]:
    """One step from C g (d,) and noise (d,) of the right covariance; `decay` is e^-Ch."""
    kicked = size * force
    kicked += velocity
    after = decay * kicked
    after += spread
    kicked += after
    kicked *= 0.5 * size
    kicked += position
    return kicked, after


def _deviation(size: float | Vector, friction: float, estimate: float) -> Vector:
    """sqrt((1 - B/C)(1 - e^-2Ch)); without friction there is no noise."""
    if friction == 0:
        return np.zeros(np.shape(size))
    return np.sqrt((1 - estimate / friction) * -np.expm1(-2 * friction * np.asarray(size)))


def steps(
    dynamics: Dynamics,
    state: State,
    rng: np.random.Generator,
    count: int = 64,
    friction: float = 1.0,
    estimate: float = 0.0,
) -> tuple[State, StepBlock, Info]:
    """A block of steps."""
    by, d, tally = dynamics.preconditioner, len(state.position), Tally(state.undone)
    indices = dynamics.minibatches.indices(rng, state.n_steps, count)
    noise, sizes = rng.standard_normal((count, d)), dynamics.schedule.sizes(state.n_steps, count)
    path, velocity = np.empty((count + 1, d)), state.velocity.copy()
    path[0] = state.position
    rates = (sizes, np.exp(-friction * sizes), _deviation(sizes, friction, estimate)[:, None] * by.spread(noise))
    given = fast.given(dynamics.gradients)
    if given is not None:
        rows, link, *rest = given
        run = fast.loops().sghmc
        run(rows, link, indices, *rest, chain.as_rows(by.matrix), *rates, velocity, path, tally.counts)
    else:
        _loop(dynamics, indices, *rates, velocity, path, tally)
    after = State(path[-1].copy(), velocity, state.n_steps + count, int(tally.counts[0]))
    return after, StepBlock(path[1:], sizes), chain.info(dynamics, indices, tally)


def _loop(
    dynamics: Dynamics,
    indices: Indices,
    sizes: Vector,
    decays: Vector,
    spread: Matrix,
    velocity: Vector,
    path: Matrix,
    tally: Tally,
) -> None:
    """The same without numba; changes the velocity in place."""
    by = dynamics.preconditioner
    with np.errstate(all="ignore"):
        for t, batch in enumerate(indices):
            force = by.times(dynamics.gradients(path[t], batch))
            moved, after = _moved(path[t], velocity, force, spread[t], sizes[t], decays[t])
            good = tally.keep(moved, after)
            path[t + 1] = moved if good else path[t]
            if good:
                velocity[:] = after
