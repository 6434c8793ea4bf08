"""Draws near given parameters: from prior^(1/J) times likelihood times N(theta, bandwidth^2), by Langevin steps.

Each of k vectors has a chain of its own that starts at its theta. Steps are accepted as Metropolis and Hastings say,
so what the last ones are of does not depend on how long steps are.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from streaminfer.combining.questions import Question
from streaminfer.models.model import Matrix, Vector

STEPS: Final = 60
"""Of each chain. A step forgets a part size / 2 of the start, where sizes are d^(-1/3): in 60 all but 0.3% is forgotten
up to d = 50, if the scales are right."""
SIZES: Final = (1.0, 1.0, 0.1)
"""Of steps in turn: a short one is accepted where the scales are too long."""
_SPREAD_OF: Final = 10
"""Vectors whose spread says something about the width of the posterior."""


class Near(NamedTuple):
    """Centres theta (k, d), their bandwidth (d,), and the lengths of steps (d,)."""

    theta: Matrix
    bandwidth: Vector
    scale: Vector


class Sums(Protocol):
    """A target with rows."""

    @property
    def target(self) -> Any: ...

    def log_likelihood(self, theta: Matrix) -> Generator[None, None, Vector]: ...

    def gradient(self, theta: Matrix) -> Generator[None, None, Matrix]: ...


class _State(NamedTuple):
    position: Matrix
    log_density: Vector
    gradient: Matrix


def scales(question: Question, subposteriors: int) -> Vector:
    """How wide the draws of each parameter are about: (d,).

    Where theta are draws of the posterior, J times their variance is about that of a subposterior.
    """
    if len(question.theta) < _SPREAD_OF:
        return question.bandwidth
    with np.errstate(all="ignore"):
        spread = subposteriors * question.theta.var(axis=0)
        narrower = 1 / np.sqrt(1 / np.square(question.bandwidth) + 1 / spread)
    return np.where(np.isfinite(spread) & (spread > 0), narrower, question.bandwidth)


def draws(on: Sums, share: float, near: Near, rng: np.random.Generator) -> Generator[None, None, Matrix]:
    """One for each centre, (k, d), after STEPS steps; the prior has the power `share`."""
    k, d = near.theta.shape
    slopes = hasattr(on.target, "gradient") and hasattr(on.target, "prior_gradient")
    longest = d ** (-1 / 3) if slopes else 2.38**2 / d
    state = yield from _state(on, share, near, near.theta, slopes)
    for step in range(STEPS):
        noise, level = rng.standard_normal((k, d)), np.log1p(-rng.random(k))
        lengths = np.sqrt(longest * SIZES[step % len(SIZES)]) * near.scale
        with np.errstate(all="ignore"):
            proposed = state.position + 0.5 * lengths**2 * state.gradient + lengths * noise
        after = yield from _state(on, share, near, proposed, slopes)
        with np.errstate(all="ignore"):
            back = (state.position - proposed) / lengths - 0.5 * lengths * after.gradient
            ratio = after.log_density - state.log_density + 0.5 * (noise**2 - back**2).sum(axis=1)
            taken = (level < ratio) & np.isfinite(after.log_density) & np.isfinite(proposed).all(axis=1)
        state = _State(
            np.where(taken[:, None], after.position, state.position),
            np.where(taken, after.log_density, state.log_density),
            np.where(taken[:, None], after.gradient, state.gradient),
        )
    return state.position


def _state(on: Sums, share: float, near: Near, at: Matrix, slopes: bool) -> Generator[None, None, _State]:
    """Density and gradient at (k, d); without gradients the steps are a random walk."""
    total = yield from on.log_likelihood(at)
    slope = np.zeros(at.shape)
    with np.errstate(all="ignore"):
        away = (at - near.theta) / near.bandwidth
        total = total + share * on.target.log_prior(at) - 0.5 * (away**2).sum(axis=1)
    if slopes:
        slope = yield from on.gradient(at)
        with np.errstate(all="ignore"):
            slope = slope + share * on.target.prior_gradient(at) - away / near.bandwidth
    return _State(at, np.where(np.isnan(total), -np.inf, total), slope)
