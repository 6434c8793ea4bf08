"""Sizes of steps that need no tuning: from how wrong a variance may be and the noise of gradients.

All in whitened coordinates, in which the posterior is about N(0, I). V is the largest eigenvalue there of the
covariance of the gradient's estimate, which is averaged over draws from the Laplace approximation.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from streaminfer.models.model import Matrix, Vector
from streaminfer.models.targets.kinds.margins import Margins
from streaminfer.sampling.gradients.estimates import Gradients
from streaminfer.sampling.gradients.preconditioning import Preconditioner

DRAWS: Final = 64
"""Laplace draws over which the noise is averaged."""
MOST_ROWS: Final = 1 << 16
"""Rows at most from which the noise is measured; a random part of more."""
_LOWEST: Final = -1e300
"""The log of the weight of a draw with no density at all."""
LONGEST_SGHMC: Final = 0.5
"""A longer step of sghmc would be wrong where a posterior is not Gaussian, whatever its gradient noise."""


class NoiseSum:
    """V of minibatches of `size` rows, drawn with replacement: N^2 / B times the covariance of what rows add.

    It is averaged over `DRAWS` draws from the Laplace approximation, which are added one by one. A draw counts by
    min(1, p / q), p and q the posterior's and the approximation's density by those at the mode. A posterior that falls
    off faster never goes where the approximation has its tails, and the noise there may be a thousand times as large.
    """

    def __init__(
        self, gradients: Gradients, mode: Vector, by: Preconditioner, size: int, rng: np.random.Generator
    ) -> None:
        self._gradients, self._by, self._size = gradients, by, size
        density, noise = gradients.density, rng.standard_normal((DRAWS, len(mode)))
        self._draws = mode + by.spread(noise)
        self._squares = (noise * noise).sum(axis=1)
        self._at_mode = float(density.log_density(mode[None])[0])
        self._weight, self._peak = 0.0, -math.inf
        """The sum of the weights so far, by the largest of them, and the log of that."""
        chosen = slice(None) if density.n <= MOST_ROWS else np.sort(rng.choice(density.n, MOST_ROWS, replace=False))
        self._rows = np.asarray(density.rows[chosen])
        self._margins = None
        if isinstance(density.target, Margins):
            self._margins = _Margins(gradients, by, self._rows)
        self._total = np.zeros((len(mode),) * 2)

    def add(self, i: int) -> None:
        """Takes in the i-th draw."""
        above = float(self._gradients.density.log_density(self._draws[i][None])[0]) - self._at_mode
        weight = self._weighed(min(0.0, above + 0.5 * float(self._squares[i])))
        if self._margins is not None:
            self._margins.add(self._draws[i], weight)
        else:
            terms = self._by.whiten(self._gradients.terms(self._draws[i], self._rows))
            self._total += weight * np.atleast_2d(np.cov(terms.T, bias=True))

    def _weighed(self, log_weight: float) -> float:
        """The weight of a draw by the largest so far, to which all others are brought."""
        log_weight = max(log_weight, _LOWEST)
        if log_weight > self._peak:
            fade = math.exp(self._peak - log_weight)
            self._peak, self._weight, self._total = log_weight, fade * self._weight, fade * self._total
            if self._margins is not None:
                self._margins.fade(fade)
        weight = math.exp(log_weight - self._peak)
        self._weight += weight
        return weight

    @property
    def noise(self) -> float:
        total = self._total if self._margins is None else self._margins.covariance
        largest = max(np.linalg.eigvalsh(total / self._weight)[-1], 0.0)
        return float(self._gradients.density.n**2 / self._size * largest)


class _Margins:
    """The same if a gradient is slope · row: one sum of squares for all draws, as rows are the same for each."""

    def __init__(self, gradients: Gradients, by: Preconditioner, rows: Matrix) -> None:
        self._target: Margins = gradients.density.target
        self._rows, self._white = rows, by.whiten(rows)
        self._fixed = 0.0 if gradients.anchor is None else self._target.slope(rows @ gradients.anchor.position)
        self._squares, self._means = np.zeros(len(rows)), np.zeros((self._white.shape[1],) * 2)

    def add(self, theta: Vector, weight: float) -> None:
        slopes = self._target.slope(self._rows @ theta) - self._fixed
        mean = slopes @ self._white / len(self._rows)
        self._squares += weight * slopes**2
        self._means += weight * np.outer(mean, mean)

    def fade(self, factor: float) -> None:
        """All draws so far count less by a factor."""
        self._squares, self._means = factor * self._squares, factor * self._means

    @property
    def covariance(self) -> Matrix:
        """The sum over all draws."""
        second = (self._squares[:, None] * self._white).T @ self._white / len(self._rows)
        return np.asarray(second - self._means, dtype=np.float64)


def gradient_noise(
    gradients: Gradients, mode: Vector, by: Preconditioner, size: int, rng: np.random.Generator
) -> float:
    """V, of all draws at once."""
    found = NoiseSum(gradients, mode, by, size, rng)
    for i in range(DRAWS):
        found.add(i)
    return found.noise


def sgld_step(bias: float, noise: float) -> float:
    """eps with (1 + eps V / 4) / (1 - eps / 4) = 1 + bias."""
    return 4 * bias / (noise + 1 + bias)


def sghmc_step(bias: float, noise: float, friction: float = 1.0, estimate: float = 0.0) -> float:
    """The longest h, at most 0.5, with a stationary variance of at most 1 + bias by the Lyapunov equation."""
    if _excess(LONGEST_SGHMC, noise, friction, estimate) <= bias:
        return LONGEST_SGHMC
    low, high = 0.0, LONGEST_SGHMC
    for _ in range(60):
        middle = 0.5 * (low + high)
        if _excess(middle, noise, friction, estimate) <= bias:
            low = middle
        else:
            high = middle
    return low


def _excess(size: float, noise: float, friction: float, estimate: float) -> float:
    return float(sghmc_covariance(size, noise, friction, estimate)[0, 0]) - 1


def sghmc_covariance(size: float, noise: float, friction: float = 1.0, estimate: float = 0.0) -> Matrix:
    """The stationary covariance (2, 2) of position and velocity on N(0, 1): S = M S M' + Q.

    M is one step without noise, Q the noise it adds: V h^2 of the gradient's kick, then that of the friction.
    """
    h, decay = size, math.exp(-friction * size)
    kick = np.array([[1.0, 0.0], [-h, 1.0]])
    drift = np.array([[1.0, 0.5 * h], [0.0, 1.0]])
    after = drift @ np.diag([1.0, decay]) @ drift
    fresh = (1 - estimate / friction) * -math.expm1(-2 * friction * h)
    added = after @ np.diag([0.0, noise * h * h]) @ after.T + drift @ np.diag([0.0, fresh]) @ drift.T
    step = after @ kick
    return lyapunov(step, added)


def lyapunov(step: Matrix, added: Matrix) -> Matrix:
    """The S with S = M S M' + Q, for a linear chain whose M has all eigenvalues inside the unit circle."""
    d = len(step)
    solved = np.linalg.solve(np.eye(d * d) - np.kron(step, step), added.ravel())
    return np.asarray(solved.reshape(d, d), dtype=np.float64)


def sgnht_step(noise: float) -> float:
    """min(0.2, 0.8 / V): the thermostat takes care of what the noise adds, as long as steps are short."""
    return min(0.2, 0.8 / noise) if noise > 0 else 0.2
