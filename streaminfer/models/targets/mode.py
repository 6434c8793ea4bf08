"""The mode of a density on the unconstrained scale, one pass over the data for each step.

With curvature by Newton's method, damped until the density rises; without it by scipy's L-BFGS. Units of coordinates do
not matter: steps are solved where the curvature has a diagonal of 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from streaminfer.families import matrices
from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.target import Curved, Guessing

MOST: Final = 200
"""Steps at most."""
_SLICES: Final = 20
"""Times MOST steps of a search without curvature, at most."""
_CLOSE: Final = 1e-8
"""The squared length of a Newton step in units of the posterior's deviations, below which a mode is found."""
_LEFT: Final = 1e-4
"""The same for a search without curvature, in nats."""
_ROUNDING: Final = 1e-13
"""What rounding may leave of a gradient, as a part of the terms that it is the sum of."""


class NoModeError(ValueError):
    """A density whose mode was not found; says why, and what to change."""


class State(NamedTuple):
    """Where the search is: place (d,), log density, damping, steps, gradients and likelihoods of all data so far."""

    theta: Vector
    log_density: float
    damping: float
    n_steps: int
    n_gradient: int
    n_likelihood: int
    done: bool


class Mode(NamedTuple):
    """The place (d,), the curvature (d, d) there if the target has one, and passes over all data that it took."""

    theta: Vector
    curvature: Matrix | None
    n_gradient: int
    n_likelihood: int


def init(density: Density, start: Vector | None = None) -> State:
    """Starts at `start` (d,), or where the target guesses, or at 0."""
    if start is None:
        start = density.target.guess(density.rows) if isinstance(density.target, Guessing) else None
    theta = np.zeros(density.dimension) if start is None else np.array(start, dtype=np.float64)
    log_density = float(density.log_density(theta[None])[0])
    if not np.isfinite(log_density):
        raise NoModeError(f"the log density is {log_density} where the search for the mode starts; check the data")
    return State(theta, log_density, 0.0, 0, 0, 1, done=False)


def step(density: Density, state: State) -> State:
    """One step of Newton's method; `done` if it is shorter than a ten-thousandth of the posterior's deviation."""
    gradient, curvature = density.gradient(state.theta[None])[0], density.curvature(state.theta)
    passes = state._replace(n_steps=state.n_steps + 1, n_gradient=state.n_gradient + 2)
    if not (np.isfinite(gradient).all() and np.isfinite(curvature).all()):
        raise NoModeError("the gradient or the curvature leaves float64 on the way to the mode; scale the features")
    damping = state.damping
    while damping <= 1e12:
        move = _solved(curvature, gradient, damping)
        if move is not None:
            length = float(gradient @ move)
            if length <= _CLOSE and damping <= 1e-6:
                return _landed(density, passes, move)
            place = state.theta + move
            reached = float(density.log_density(place[None])[0])
            passes = passes._replace(n_likelihood=passes.n_likelihood + 1)
            # What a step gains may be less than the rounding of the log density.
            if reached > state.log_density - _ROUNDING * abs(state.log_density):
                return passes._replace(theta=place, log_density=reached, damping=_less(damping))
        damping = max(4 * damping, 1e-3)
    raise NoModeError("no step raises the log density, though its gradient is not 0: is the gradient right?")


def _less(damping: float) -> float:
    return 0.0 if damping < 1e-3 else 0.1 * damping


def _landed(density: Density, state: State, move: Vector) -> State:
    """The last step, kept if it does not leave the finite numbers."""
    place = state.theta + move
    reached = float(density.log_density(place[None])[0])
    state = state._replace(n_likelihood=state.n_likelihood + 1, done=True)
    return state._replace(theta=place, log_density=reached) if np.isfinite(reached) else state


def _solved(curvature: Matrix, gradient: Vector, damping: float) -> Vector | None:
    """(H + damping diag H)^-1 g, or None if that matrix is not positive definite."""
    diagonal = np.abs(curvature.diagonal())
    if not (diagonal > 0).all():
        return None
    units = 1 / np.sqrt(diagonal)
    scaled = units[:, None] * curvature * units
    scaled[np.diag_indices_from(scaled)] += damping
    try:
        factor = matrices.cholesky(scaled)
    except np.linalg.LinAlgError:
        return None
    half = matrices.solve_lower(factor, units * gradient)
    move: Vector = units * matrices.solve_lower_transposed(factor, half)
    return move


def find(density: Density, start: Vector | None = None) -> Mode:
    """The mode, by all steps at once; raises NoModeError."""
    *_, state = search(density, start)
    return found(density, state)


def search(density: Density, start: Vector | None = None) -> Iterator[State]:
    """The states of a search, one for each slice of work; the last is `done`. Raises NoModeError."""
    state = init(density, start)
    yield state
    advance = step if isinstance(density.target, Curved) else _quasi_newton
    while not state.done:
        if state.n_steps >= MOST:
            raise NoModeError(
                f"the log density still rises after {MOST} steps: it has no mode, or one too far away. "
                "A prior with a higher precision, or features of a smaller size, gives it one"
            )
        state = advance(density, state)
        yield state


def found(density: Density, state: State) -> Mode:
    """The mode where a search is done; raises NoModeError if the curvature there is not that of a maximum."""
    if not isinstance(density.target, Curved):
        return Mode(state.theta, None, state.n_gradient, state.n_likelihood)
    curvature = density.curvature(state.theta)
    if not (np.isfinite(curvature).all() and _solved(curvature, np.zeros(len(curvature)), 0.0) is not None):
        raise NoModeError(
            "the curvature at the mode is not positive definite: some combination of parameters is not determined by "
            "data and prior. Raise the prior's precision, or use precondition: rms"
        )
    return Mode(state.theta, curvature, state.n_gradient + 1, state.n_likelihood)


def _quasi_newton(density: Density, state: State) -> State:
    """Some steps of L-BFGS, and whether a gradient has vanished."""
    from scipy import optimize

    def descent(theta: Vector) -> tuple[float, Vector]:
        value, slope = float(density.log_density(theta[None])[0]), density.gradient(theta[None])[0]
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return 1e300, np.zeros(len(theta))
        return -value, -slope

    options: Any = {"maxiter": MOST, "maxfun": 2 * MOST, "maxls": 60, "ftol": 1e-15, "gtol": 1e-9}
    made = optimize.minimize(descent, state.theta, jac=True, method="L-BFGS-B", options=options)
    theta = np.asarray(made.x, dtype=np.float64)
    slope = density.gradient(theta[None])[0]
    # What a Newton step would still gain, by the curvature that the search has seen.
    left = float(slope @ (made.hess_inv @ slope))
    if not left <= _LEFT and (made.nit < MOST or state.n_steps >= _SLICES):
        raise NoModeError(
            f"a step would still gain {left:.3g} nats where the search for the mode ended: "
            "start at a draw from the prior (start: prior), or raise the prior's precision"
        )
    return State(
        theta,
        -float(made.fun),
        0.0,
        state.n_steps + 1,
        state.n_gradient + int(made.nfev) + 1,
        state.n_likelihood + int(made.nfev),
        done=left <= _LEFT,
    )
