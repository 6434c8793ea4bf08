"""The mixture of Welling & Teh (2011, section 5.1) beside two-dimensional quadrature: both modes, with falling steps.

theta_1 ~ N(0, 10), theta_2 ~ N(0, 1), x ~ N(theta_1, 2) / 2 + N(theta_1 + theta_2, 2) / 2, 100 events.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.gradients.estimates import Gradients
from streaminfer.sampling.gradients.minibatches import Shuffled
from streaminfer.sampling.gradients.schedule import Schedule
from streaminfer.sampling.kernels import sgld
from streaminfer.sampling.kernels.chain import Dynamics
from streaminfer.sampling.randomness import Key


class Mixture:
    dimension, columns = 2, 1

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"theta": (2,)}

    def _joint(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """log of half the density of each component, (2, k, n)."""
        means = np.stack([theta[:, 0], theta[:, 0] + theta[:, 1]])
        return -0.25 * (rows[:, 0] - means[..., None]) ** 2 - 0.5 * np.log(4 * np.pi) - np.log(2)

    def log_likelihood(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return np.logaddexp(*self._joint(theta, rows))

    def gradient(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        one, two = self._joint(theta, rows)
        second = 1 / (1 + np.exp(one - two))
        away = rows[:, 0] - theta[:, :1]
        by_second = (0.5 * second * (away - theta[:, 1:])).sum(axis=1)
        by_first = (0.5 * (1 - second) * away).sum(axis=1)
        return np.column_stack([by_first + by_second, by_second])

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        return -0.5 * (theta[:, 0] ** 2 / 10 + theta[:, 1] ** 2) - np.log(2 * np.pi * np.sqrt(10))

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return -theta / [10.0, 1.0]


class Many:
    """k copies of the mixture side by side, as one target of 2 k coordinates: chains that share their minibatches."""

    columns = 1

    def __init__(self, k: int) -> None:
        self.dimension, self.one = 2 * k, Mixture()

    def gradient(self, theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self.one.gradient(theta.reshape(-1, 2), rows).reshape(theta.shape)

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return self.one.prior_gradient(theta.reshape(-1, 2)).reshape(theta.shape)


def events() -> np.ndarray:
    rng = np.random.default_rng(20)
    return np.sqrt(2) * rng.standard_normal((100, 1)) + (rng.random((100, 1)) < 0.5)


def quadrature(density: Density) -> tuple[np.ndarray, np.ndarray]:
    """Places (k, 2) of a grid and their probabilities."""
    one, two = np.meshgrid(np.linspace(-2, 3, 251), np.linspace(-4, 4, 401), indexing="ij")
    grid = np.column_stack([one.ravel(), two.ravel()])
    logs = np.concatenate([density.log_density(part) for part in np.array_split(grid, 50)])
    weights = np.exp(logs - logs.max())
    return grid, weights / weights.sum()


CHAINS, BLOCKS = 200, 200


@pytest.mark.long
def test_falling_steps_find_both_modes() -> None:
    """Step-weighted averages of 200 chains, all of which start in one mode."""
    density = Density(Mixture(), events())
    grid, probabilities = quadrature(density)
    key = Key(21, "steps")
    minibatches, falling = Shuffled(100, 50, key), Schedule(0.02, after=2000, power=0.55, floor=0.004)
    made = Dynamics(
        Gradients(Density(Many(CHAINS), density.rows)), minibatches, falling, preconditioning.none(2 * CHAINS)
    )
    state, total, time = sgld.init(np.tile([0.0, 1.0], CHAINS)), 0.0, 0.0
    for block in range(BLOCKS):
        state, path, info = sgld.steps(made, state, key.generator(block), 200)
        assert info.n_undone == 0
        if block >= BLOCKS // 10:
            values = np.array([_functions(each.reshape(-1, 2)) for each in path.positions])
            total = total + np.tensordot(path.weights, values, axes=1)
            time += float(path.weights.sum())
    found, expected = total / time, probabilities @ _functions(grid)
    error = 5.5 * np.std(found, axis=0, ddof=1) / np.sqrt(CHAINS)
    assert 0.2 < expected[-1] < 0.8  # both modes count
    spread = np.sqrt(probabilities @ (_functions(grid) - expected) ** 2)
    assert (error < 0.25 * spread).all()
    assert (np.abs(np.mean(found, axis=0) - expected) < 0.05 * (1 + np.abs(expected)) + error).all()


def _functions(theta: np.ndarray) -> np.ndarray:
    """Both coordinates, their squares and product, and the mass of the mode above 0."""
    one, two = theta.T
    return np.column_stack([one, two, one**2, two**2, one * two, two > 0])
