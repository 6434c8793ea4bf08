"""Dynamics that need no tuning: whitened at the mode, with control variates, and a step from the bias allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from streaminfer.models.model import Vector
from streaminfer.models.targets.density import Density
from streaminfer.models.targets.mode import Mode
from streaminfer.sampling.gradients import bias, preconditioning
from streaminfer.sampling.gradients.estimates import Gradients, anchor
from streaminfer.sampling.gradients.minibatches import Minibatches, Random
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.gradients.schedule import Schedule
from streaminfer.sampling.kernels.chain import Dynamics

STEPS: Final[Mapping[str, Callable[[float, float, float], float]]] = {
    "sgld": lambda allowed, noise, friction: bias.sgld_step(allowed, noise),  # noqa: ARG005 (has no friction)
    "sghmc": bias.sghmc_step,
    "sgnht": lambda allowed, noise, friction: bias.sgnht_step(noise),  # noqa: ARG005 (its thermostat finds both)
}
"""The size of a step by method, from (bias, V, friction)."""


class Tuned(NamedTuple):
    """Dynamics, the gradient noise V that was measured, and gradients of single events that this took."""

    dynamics: Dynamics
    noise: float
    n_setup: int


def tuned(
    density: Density,
    mode: Mode,
    method: str,
    rng: np.random.Generator,
    allowed: float = 0.05,
    minibatch: int = 256,
    control_variates: bool = True,
    friction: float = 1.0,
    minibatches: Minibatches | None = None,
) -> Tuned:
    """The dynamics of a method at a mode; `rng` must be the same for all chains, so that all have one step."""
    if not density.n:
        raise ValueError("there are no events to take minibatches of: the posterior is the prior until some arrive")
    if mode.curvature is None:
        raise ValueError("a step by its bias needs the curvature at the mode; give step: {size: s} instead")
    by = preconditioning.mode(mode.curvature)
    size = min(minibatch, density.n)
    chosen = Random(density.n, size) if minibatches is None else minibatches
    gradients = Gradients(density, anchor(density, mode.theta) if control_variates else None)
    noise = bias.gradient_noise(gradients, mode.theta, by, size, rng)
    step = STEPS[method](allowed, noise, friction)
    cost = (min(density.n, bias.MOST_ROWS) + density.n) * bias.DRAWS + (density.n if control_variates else 0)
    return Tuned(Dynamics(gradients, chosen, Schedule(step), by), noise, cost)


def start(mode: Mode, by: Preconditioner, rng: np.random.Generator) -> Vector:
    """A place to start: two deviations of the Laplace approximation from the mode, in a random direction."""
    return mode.theta + by.spread(2 * rng.standard_normal(len(mode.theta)))
