"""Stochastic gradient Langevin dynamics (Welling & Teh 2011).

theta' = theta + eps/2 C g + sqrt(eps) R z, z ~ N(0, I). C = R R' is the preconditioner, g an estimate of the gradient.
On a Gaussian with precision 1 in the coordinates R^-1 theta and gradient noise of variance V the stationary variance is
(1 + eps V / 4) / (1 - eps / 4).

Steps may be corrected by an approximate Metropolis test (Korattikara, Chen & Welling 2014): a step is a proposal, whose
density is that of the same minibatch forth and back.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaminfer.families.special import solve_triangular
from streaminfer.models.model import Matrix, Vector
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.gradients.minibatches import Indices
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.kernels import chain, fast, poisson_mh, subsampled_mh
from streaminfer.sampling.kernels.chain import Dynamics, Info, StepBlock, Tally
from streaminfer.sampling.kernels.subsampled_mh import Subsets


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
    return _moved(position, by.times(gradient), _spread(noise, size, by), size)


def _spread(noise: NDArray[np.float64], size: float | Matrix, by: Preconditioner) -> NDArray[np.float64]:
    """sqrt(eps) R z of each row z."""
    return np.sqrt(size) * by.spread(noise)


def _moved(position: Vector, force: Vector, spread: Vector, size: float) -> Vector:
    """One step from C g (d,) and noise (d,) of the right covariance."""
    moved = 0.5 * size * force
    moved += position
    moved += spread
    return moved


def log_transition(to: Vector, at: Vector, gradient: Vector, size: float, by: Preconditioner) -> float:
    """log q(to | at) apart from what is the same both ways: minus half the square of the noise that leads there."""
    left = to - at - 0.5 * size * by.times(gradient)
    noise = left / by.root if by.root.ndim == 1 else solve_triangular(by.root, left)
    return -0.5 * float(noise @ noise) / size


def steps(
    dynamics: Dynamics, state: State, rng: np.random.Generator, count: int = 64, adapting: bool = False
) -> tuple[State, StepBlock, Info]:
    """A block of steps. Weights are the sizes of steps.

    While `adapting` the preconditioner is `rms`, of the gradients so far; afterwards it is that of `dynamics`.
    """
    indices = dynamics.minibatches.indices(rng, state.n_steps, count)
    noise = rng.standard_normal((count, len(state.position)))
    sizes, tally = dynamics.schedule.sizes(state.n_steps, count), Tally(state.undone)
    given, by = None if adapting else fast.given(dynamics.gradients), dynamics.preconditioner
    path, squares = np.empty((count + 1, len(state.position))), state.squares
    path[0] = state.position
    if adapting:
        squares = _learn(dynamics, squares, indices, noise, sizes, path, tally)
    else:
        spread = _spread(noise, sizes[:, None], by)
        if given is None:
            _loop(dynamics, indices, sizes, spread, path, tally)
        else:
            rows, link, *rest = given
            fast.loops().sgld(rows, link, indices, *rest, chain.as_rows(by.matrix), sizes, spread, path, tally.counts)
    after = State(path[-1].copy(), state.n_steps + count, int(tally.counts[0]), squares)
    return after, StepBlock(path[1:], sizes), chain.info(dynamics, indices, tally)


def _loop(dynamics: Dynamics, indices: Indices, sizes: Vector, spread: Matrix, path: Matrix, tally: Tally) -> None:
    """The same without numba."""
    gradients, by = dynamics.gradients, dynamics.preconditioner
    with np.errstate(all="ignore"):
        for t, batch in enumerate(indices):
            moved = _moved(path[t], by.times(gradients(path[t], batch)), spread[t], sizes[t])
            path[t + 1] = moved if tally.keep(moved) else path[t]


def _learn(
    dynamics: Dynamics, squares: Vector, indices: Indices, noise: Matrix, sizes: Vector, path: Matrix, tally: Tally
) -> Vector:
    """While the preconditioner is learned: with each step another one. Returns the mean squares."""
    n = dynamics.gradients.density.n
    with np.errstate(all="ignore"):
        for t, batch in enumerate(indices):
            gradient = dynamics.gradients(path[t], batch)
            squares = preconditioning.mean_square(squares, gradient, n)
            moved = step(path[t], gradient, noise[t], sizes[t], preconditioning.rms(squares, n))
            path[t + 1] = moved if tally.keep(moved) else path[t]
    return squares


def corrected(
    dynamics: Dynamics, by: Subsets, state: State, rng: np.random.Generator, picks: np.random.Generator, count: int = 64
) -> tuple[State, StepBlock, Info, poisson_mh.Info]:
    """A block of steps that are proposals, each accepted or not by a subset of events; the weights are 1."""
    indices = dynamics.minibatches.indices(rng, state.n_steps, count)
    noise, levels = rng.standard_normal((count, len(state.position))), np.log1p(-rng.random(count))
    sizes, path = dynamics.schedule.sizes(state.n_steps, count), np.empty((count, len(state.position)))
    here, total = poisson_mh.init(state.position), poisson_mh.Info()
    with np.errstate(all="ignore"):
        for t, batch in enumerate(indices):
            proposed, log_ratio = _proposed(dynamics, here.position, batch, noise[t], float(sizes[t]))
            decision = subsampled_mh.decide(by, here, proposed, float(levels[t]), picks, log_ratio)
            accepted = bool(levels[t] < decision.log_alpha)
            here = poisson_mh.moved(here, proposed, decision, accepted)
            total = total.plus(poisson_mh.Info(int(accepted), 1, decision.n_likelihood, decision.n_read))
            path[t] = here.position
    after = State(here.position.copy(), state.n_steps + count, 0, state.squares)
    # A gradient forth and one back.
    spent = Info(2 * indices.size * dynamics.gradients.cost, 0)
    return after, StepBlock(path, np.ones(count)), spent, total


def _proposed(dynamics: Dynamics, theta: Vector, batch: Indices, noise: Vector, size: float) -> tuple[Vector, float]:
    """Where a step leads, and log q(theta | there) - log q(there | theta) by the same minibatch, or NaN."""
    by = dynamics.preconditioner
    proposed = step(theta, dynamics.gradients(theta, batch), noise, size, by)
    if not np.isfinite(proposed).all():
        return proposed, math.nan
    back = log_transition(theta, proposed, dynamics.gradients(proposed, batch), size, by)
    return proposed, back + 0.5 * float(noise @ noise)
