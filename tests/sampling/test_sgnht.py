"""The thermostat finds the noise of gradients: variances stay right where those of sghmc do not.

Checks leave 5.5 Monte Carlo standard errors, from 300 independent coordinates: a false alarm is below 1e-6 each.
"""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import bias, preconditioning
from streaminfer.sampling.gradients.estimates import Gradients
from streaminfer.sampling.gradients.minibatches import Random
from streaminfer.sampling.gradients.schedule import Schedule
from streaminfer.sampling.kernels import sgnht
from streaminfer.sampling.kernels.chain import Dynamics
from streaminfer.sampling.randomness import Key
from tests.sampling.gaussians import D, Moment, agrees, gaussian, moment

KEY = Key(5, "steps")
SIZE, NOISE = 0.05, 8.0


def run(steps: int, density: Density) -> tuple[np.ndarray, np.ndarray]:
    """Positions and thermostats (steps, d) after warm-up."""
    made = Dynamics(Gradients(density), Random(density.n, 4), Schedule(SIZE), preconditioning.none(D))
    state = sgnht.init(KEY.generator(9).standard_normal(D), KEY.generator(8))
    state, _, _ = sgnht.steps(made, state, KEY.generator(0), 1500)
    positions, thermostats = [], []
    for block in range(steps // 4):
        state, found, _ = sgnht.steps(made, state, KEY.generator(block + 1), 4)
        positions.append(found.positions[-1])
        thermostats.append(state.thermostat)
    return np.array(positions), np.array(thermostats)


def test_variance_is_right_and_friction_takes_up_the_noise() -> None:
    """Where sghmc has a variance of 1.20."""
    x, friction = run(24_000, gaussian(NOISE, 4))
    variance, mean = moment(x * x), moment(friction)
    assert 5.5 * variance.error < 0.02
    assert abs(variance.value - 1) < 0.01 + 5.5 * variance.error
    assert abs(mean.value - (1 + 0.5 * SIZE * NOISE)) < 0.01 + 5.5 * mean.error
    assert bias.sghmc_covariance(SIZE, NOISE)[0, 0] == pytest.approx(1.20, abs=0.005)
    assert not agrees(variance, bias.sghmc_covariance(SIZE, NOISE)[0, 0], 0.03)


def euler(steps: int) -> Moment:
    """The published scheme: x + h p, p + h (g - x_t p) + sqrt(2 A h) z, and the thermostat last."""
    rng = np.random.default_rng(1)
    x, p, warmth, squares = rng.standard_normal(D), rng.standard_normal(D), np.full(D, 1.0), np.zeros(D)
    for t in range(steps):
        gradient = -x + np.sqrt(NOISE) * rng.standard_normal(D)
        p = p + SIZE * (gradient - warmth * p) + np.sqrt(2 * SIZE) * rng.standard_normal(D)
        x = x + SIZE * p
        warmth = warmth + SIZE * (p * p - 1)
        squares += x * x * (t >= 1500)
    return moment(squares[None] / (steps - 1500))


def test_eulers_scheme_is_worse() -> None:
    """Why this is a splitting: 0.97 where the splitting has 0.998."""
    found = euler(40_000)
    assert found.value + 5.5 * found.error < 0.99


def test_steps_are_short_enough_for_the_thermostat() -> None:
    assert bias.sgnht_step(0.0) == 0.2
    assert bias.sgnht_step(1.0) == 0.2
    assert bias.sgnht_step(80.0) == pytest.approx(0.01)


def test_a_step_out_of_the_finite_numbers_is_undone() -> None:
    density = gaussian(1.0, 4)
    broken = Density(density.target, np.full(density.rows.shape, np.inf))
    made = Dynamics(Gradients(broken), Random(density.n, 4), Schedule(SIZE), preconditioning.none(D))
    state = sgnht.init(np.zeros(D), KEY.generator(8))
    after, block, info = sgnht.steps(made, state, KEY.generator(0), 64)
    np.testing.assert_array_equal(block.positions, 0.0)
    np.testing.assert_array_equal(after.momentum, state.momentum)
    np.testing.assert_array_equal(after.thermostat, state.thermostat)
    assert (after.undone, info.n_undone) == (64, 64)
