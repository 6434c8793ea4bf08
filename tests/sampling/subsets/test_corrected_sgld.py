"""Steps of sgld that a test on subsets accepts: large steps without their bias, by the same minibatch both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.sampling.gradients.estimates import Gradients, anchor
from streaminfer.sampling.gradients.minibatches import Random
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.gradients.schedule import Schedule
from streaminfer.sampling.kernels import mala, sgld, subsampled_mh
from streaminfer.sampling.kernels.chain import Dynamics
from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Stopping
from tests.sampling.subsets.worlds import at_mode, density, moments, z_scores

KEY = Key(8, "steps")


def dynamics(n: int, size: float, batch: int, controlled: bool = False) -> tuple[Dynamics, subsampled_mh.Subsets]:
    made = density(n)
    proxy, root = at_mode(made, 2)
    gradients = Gradients(made, anchor(made, proxy.expansion.anchor) if controlled else None)
    moving = Dynamics(gradients, Random(n, batch), Schedule(size), Preconditioner(root @ root.T, root))
    return moving, subsampled_mh.subsets(proxy, Stopping("bernstein_serfling", 0.01), 20)


def walked(moving: Dynamics, by: subsampled_mh.Subsets, count: int) -> np.ndarray:
    state = sgld.init(np.zeros(1))
    return sgld.corrected(moving, by, state, KEY.generator(0), KEY.generator(1), count)[1].positions


def test_with_all_events_it_is_mala() -> None:
    """A minibatch of all, in their order, and decisions of all: the same steps, up to rounding."""
    moving, by = dynamics(40, 0.8, 40)

    class Whole:
        n = size = 40

        def indices(self, rng: np.random.Generator, first: int, count: int) -> np.ndarray:
            return np.tile(np.arange(40), (count, 1))

    made = moving.gradients.density
    moving = Dynamics(moving.gradients, Whole(), moving.schedule, moving.preconditioner)
    found = walked(moving, by._replace(test=Stopping("t", 0.0)), 50)
    rng, state = KEY.generator(0), mala.init(made, np.zeros(1), 0.8)
    noise, levels = rng.standard_normal((50, 1)), rng.random(50)

    class Given:
        """The same numbers in the order that mala asks for them."""

        def __init__(self) -> None:
            self.t = -1

        def standard_normal(self, d: int) -> np.ndarray:
            self.t += 1
            return noise[self.t]

        def random(self) -> float:
            return float(levels[self.t])

    given: Any = Given()
    _, path, _ = mala.steps(made, state, given, 50, moving.preconditioner)
    np.testing.assert_allclose(found, path, rtol=1e-8)


@pytest.mark.parametrize("controlled", [True, pytest.param(False, marks=pytest.mark.long)])
def test_it_is_closer_than_plain_sgld_at_a_large_step(controlled: bool) -> None:
    """With minibatches of half the events the noise of proposals is that of a minibatch, which the test allows for."""
    moving, by = dynamics(60, 1.5, 30, controlled)
    expected = moments(moving.gradients.density)
    plain = sgld.steps(moving, sgld.init(np.zeros(1)), KEY.generator(0), 20_000)[1].positions
    variance = expected[1] - expected[0] ** 2
    off = abs(plain.var() / variance - 1)
    path = walked(moving, by, 8_000)
    assert abs(path.var() / variance - 1) < 0.5 * off
    if controlled:
        assert np.abs(z_scores(path, expected)).max() < 5.5


def log_normal(x: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> float:
    away = x - mean
    return float(-0.5 * away @ np.linalg.solve(cov, away))


def balance(moving: Dynamics, back: np.ndarray | None) -> float:
    """By how much the log ratio of proposals is off from the normal densities forth and `back`, or of the same rows."""
    by, size, worst = moving.preconditioner, 1.5, 0.0
    for t in range(20):
        theta, batch = np.array([0.1 * t - 1]), KEY.generator(t).integers(0, 60, 4)
        noise = KEY.generator(100 + t).standard_normal(1)
        proposed, found = sgld._proposed(moving, theta, batch, noise, size)
        there = moving.gradients(proposed, batch if back is None else back)
        means = [x + 0.5 * size * by.times(g) for x, g in ((proposed, there), (theta, moving.gradients(theta, batch)))]
        expected = log_normal(theta, means[0], size * by.matrix) - log_normal(proposed, means[1], size * by.matrix)
        worst = max(worst, abs(found - expected))
    return worst


def test_proposals_are_judged_by_the_same_minibatch_forth_and_back() -> None:
    """Given its minibatch a step is then reversible; by another minibatch (a mutant) the ratio is another one."""
    moving, _ = dynamics(60, 1.5, 4)
    assert balance(moving, None) < 1e-9
    assert balance(moving, np.arange(4)) > 0.1


def test_work_is_counted() -> None:
    moving, by = dynamics(60, 0.5, 10)
    state, block, info, decided = sgld.corrected(
        moving, by, sgld.init(np.zeros(1)), KEY.generator(0), KEY.generator(1), 20
    )
    assert (state.n_steps, block.weights.tolist()) == (20, [1.0] * 20)
    assert info.n_gradient == 2 * 20 * 10
    assert decided.n_proposed == 20
    assert 0 < decided.n_read <= 20 * 60
