"""Logistic regression of 50 weights and 100,000 events: the noise, the step and the variance that methods promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.models.targets import mode, target_of
from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import bias, tuning
from streaminfer.sampling.kernels import sghmc, sgld
from streaminfer.sampling.randomness import Key
from tests.models.examples import build

KEY = Key(23, "steps")
D, N = 50, 100_000


@pytest.fixture(scope="module")
def posterior() -> tuple[Density, mode.Mode]:
    rng = np.random.default_rng(24)
    target = target_of(build("logistic_regression", features=[f"x{i}" for i in range(D)], target="y", intercept=False))
    features = rng.standard_normal((N, D))
    labels = rng.logistic(size=N) < features @ (0.3 * rng.standard_normal(D))
    density = Density(target, target.rows(np.column_stack([features, labels])))
    return density, mode.find(density)


@pytest.mark.long
@pytest.mark.parametrize("method", [sgld, sghmc], ids=["sgld", "sghmc"])
def test_variances_are_as_wrong_as_allowed(method: Any, posterior: tuple[Density, mode.Mode]) -> None:
    """At 5%: with so many events the posterior is Gaussian, and its variance that of the curvature."""
    density, found = posterior
    name = "sgld" if method is sgld else "sghmc"
    made = tuning.tuned(density, found, name, KEY.of("noise").generator(0))
    assert 0.1 < made.noise < 0.4
    by = made.dynamics.preconditioner
    start = tuning.start(found, by, KEY.of("start").generator(0))
    state = sgld.init(start) if method is sgld else sghmc.init(start, by, KEY.of("start").generator(1))
    squares = []
    for block in range(4200):
        state, path, info = method.steps(made.dynamics, state, KEY.generator(block))
        assert info.n_undone == 0
        white = np.linalg.solve(by.root, (path.positions - found.theta).T)
        squares.append((white**2).mean())
    each = np.array(squares[200:]).reshape(200, -1).mean(axis=1)
    error = 5.5 * each.std() / np.sqrt(200)
    assert error < 0.01
    expected = 1.05 if method is sgld else bias.sghmc_covariance(made.dynamics.schedule.size, made.noise)[0, 0]
    # V is the largest eigenvalue, so most directions have a little less.
    assert expected - 0.02 - error < each.mean() < expected + 0.01 + error


@pytest.mark.long
def test_control_variates_allow_steps_that_are_hundreds_of_times_longer(posterior: tuple[Density, mode.Mode]) -> None:
    density, found = posterior
    rng = KEY.of("noise").generator
    plain = tuning.tuned(density, found, "sgld", rng(0), control_variates=False)
    controlled = tuning.tuned(density, found, "sgld", rng(0))
    assert plain.noise == pytest.approx(N / 256, rel=0.1)
    assert controlled.dynamics.schedule.size > 100 * plain.dynamics.schedule.size
