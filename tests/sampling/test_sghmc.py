"""Covariances of position and velocity on a Gaussian target are those of the discrete Lyapunov equation.

Checks leave 5.5 Monte Carlo standard errors, from 300 independent coordinates: a false alarm is below 1e-6 each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import bias, preconditioning
from streaminfer.sampling.gradients.estimates import Gradients
from streaminfer.sampling.gradients.minibatches import Random
from streaminfer.sampling.gradients.schedule import Schedule
from streaminfer.sampling.kernels import sghmc
from streaminfer.sampling.kernels.chain import Dynamics
from streaminfer.sampling.randomness import Key
from tests.sampling.gaussians import D, agrees, gaussian, moment

KEY = Key(4, "steps")


def dynamics(density: Density, size: float) -> Dynamics:
    return Dynamics(Gradients(density), Random(density.n, 4), Schedule(size), preconditioning.none(D))


def run(density: Density, size: float, steps: int, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities (steps, d) after warm-up."""
    made = dynamics(density, size)
    state = sghmc.init(KEY.generator(9).standard_normal(D), made.preconditioner, KEY.generator(8))
    state, _, _ = sghmc.steps(made, state, KEY.generator(0), math.ceil(12 / size), **options)
    positions, velocities = [], []
    for t in range(steps):
        state, block, _ = sghmc.steps(made, state, KEY.generator(t + 1), 1, **options)
        positions.append(block.positions[0])
        velocities.append(state.velocity)
    return np.array(positions), np.array(velocities)


@pytest.mark.parametrize(("size", "noise", "friction"), [(0.3, 6.0, 1.0), (0.5, 1.0, 0.6)])
def test_covariance_is_that_of_the_lyapunov_equation(size: float, noise: float, friction: float) -> None:
    x, v = run(gaussian(noise, 4), size, 5000, friction=friction)
    expected = bias.sghmc_covariance(size, noise, friction)
    assert agrees(moment(x * x), expected[0, 0])
    assert agrees(moment(v * v), expected[1, 1])
    across = moment(x * v)
    assert abs(across.value - expected[0, 1]) < 5.5 * across.error


def test_without_gradient_noise_positions_are_exact() -> None:
    """As of BAOAB, for a step that is half of the largest one that is stable."""
    np.testing.assert_allclose(bias.sghmc_covariance(1.0, 0.0)[0, 0], 1.0, rtol=1e-12)
    x, _ = run(gaussian(0.0, 4), 1.0, 3000)
    assert agrees(moment(x * x), 1.0)


@pytest.mark.parametrize("estimate", [0.0, 0.1])
def test_small_steps_have_the_variance_of_the_continuous_process(estimate: float) -> None:
    """(1 + (B - B-hat) / C) / L with B = step V / 2."""
    size, noise = 0.02, 20.0
    expected = 1 + 0.5 * size * noise - estimate
    assert bias.sghmc_covariance(size, noise, 1.0, estimate)[0, 0] == pytest.approx(expected, rel=0.002)


def test_the_estimate_of_the_noise_takes_it_away() -> None:
    x, _ = run(gaussian(8.0, 4), 0.1, 8000, estimate=0.4)
    assert agrees(moment(x * x), bias.sghmc_covariance(0.1, 8.0, 1.0, 0.4)[0, 0], 0.03)
    assert bias.sghmc_covariance(0.1, 8.0, 1.0, 0.4)[0, 0] == pytest.approx(1.0, abs=0.02)


def _friction_without_the_step(
    position: np.ndarray, velocity: np.ndarray, force: np.ndarray, spread: np.ndarray, size: float, decay: float
) -> tuple[np.ndarray, np.ndarray]:
    """e^-C in place of e^-Ch."""
    kicked = velocity + size * force
    after = decay ** (1 / size) * kicked + spread
    return position + 0.5 * size * (kicked + after), after


def test_a_mutant_whose_friction_lacks_the_step_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sghmc, "_moved", _friction_without_the_step)
    x, _ = run(gaussian(6.0, 4), 0.3, 2000)
    assert not agrees(moment(x * x), bias.sghmc_covariance(0.3, 6.0)[0, 0], 0.1)


def test_a_step_by_bias_has_that_bias_and_stays_short() -> None:
    for noise in (0.3, 1.0, 10.0, 400.0):
        for allowed in (0.01, 0.05, 0.5):
            size = bias.sghmc_step(allowed, noise)
            assert 0 < size <= 0.5
            if size < 0.5:
                assert bias.sghmc_covariance(size, noise)[0, 0] == pytest.approx(1 + allowed, rel=1e-9)
            else:
                assert bias.sghmc_covariance(size, noise)[0, 0] <= 1 + allowed
    assert bias.sghmc_step(0.05, 0.0) == 0.5


def test_sgld_steps_by_bias() -> None:
    for noise in (0.0, 0.2, 30.0):
        for allowed in (0.01, 0.05, 0.5):
            eps = bias.sgld_step(allowed, noise)
            assert (1 + eps * noise / 4) / (1 - eps / 4) == pytest.approx(1 + allowed, rel=1e-12)


def test_a_step_out_of_the_finite_numbers_is_undone() -> None:
    density = gaussian(1.0, 4)
    made = dynamics(Density(density.target, np.full(density.rows.shape, np.nan)), 0.1)
    state = sghmc.init(np.zeros(D), made.preconditioner, KEY.generator(8))
    after, block, info = sghmc.steps(made, state, KEY.generator(0), 64)
    np.testing.assert_array_equal(block.positions, 0.0)
    np.testing.assert_array_equal(after.velocity, state.velocity)
    assert (after.undone, info.n_undone) == (64, 64)
