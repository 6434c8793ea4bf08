"""Blocks of sgld beside the closed forms of a Gaussian target, and mutants that must not agree with them.

Checks leave 5.5 Monte Carlo standard errors, from 300 independent coordinates: a false alarm is below 1e-6 each.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from streaminfer.models.targets.density import Density
from streaminfer.sampling.gradients import preconditioning
from streaminfer.sampling.gradients.estimates import Gradients
from streaminfer.sampling.gradients.minibatches import Minibatches, Random, Shuffled
from streaminfer.sampling.gradients.preconditioning import Preconditioner
from streaminfer.sampling.gradients.schedule import Schedule
from streaminfer.sampling.kernels import sgld
from streaminfer.sampling.kernels.chain import Dynamics
from streaminfer.sampling.randomness import Key
from tests.sampling.gaussians import D, agrees, gaussian, moment

KEY = Key(3, "steps")


def dynamics(density: Density, minibatches: Minibatches, size: float) -> Dynamics:
    return Dynamics(Gradients(density), minibatches, Schedule(size), preconditioning.none(density.dimension))


def run(made: Dynamics, steps: int, warmup: int = 200) -> np.ndarray:
    """Positions (steps, d) after warm-up, from a stationary start or close to it."""
    state = sgld.init(KEY.of("start").generator(0).standard_normal(made.gradients.density.dimension))
    state, _, _ = sgld.steps(made, state, KEY.generator(0), warmup)
    _, block, _ = sgld.steps(made, state, KEY.generator(1), steps)
    return block.positions


def stationary(eps: float, precision: float, noise: float) -> float:
    return (1 + eps * noise / 4) / (precision * (1 - eps * precision / 4))


@pytest.mark.parametrize(("eps", "precision", "noise"), [(0.5, 1.0, 1.0), (0.2, 2.0, 9.0), (1.5, 1.0, 0.0)])
def test_independent_minibatches_have_the_stationary_variance(eps: float, precision: float, noise: float) -> None:
    density = gaussian(noise, 4, precision=precision)
    found = moment(run(dynamics(density, Random(density.n, 4), eps), 4000) ** 2)
    assert agrees(found, stationary(eps, precision, noise))


def test_halving_the_step_halves_the_bias() -> None:
    density = gaussian(20.0, 4)
    biases = []
    for eps in (0.2, 0.1):
        found = moment(run(dynamics(density, Random(density.n, 4), eps), 10_000) ** 2)
        assert agrees(found, stationary(eps, 1.0, 20.0), 0.03)
        biases.append(found.value - 1)
    assert biases[0] / biases[1] == pytest.approx(2, abs=0.25)


def shuffled_variance(eps: float, precision: float, noise: float, batches: int) -> float:
    """At the ends of epochs: (eps S_2 + eps^2/4 V_w J/(J - 1) (S_2 - S_1^2/J)) / (1 - a^(2J))."""
    a = 1 - 0.5 * eps * precision
    one, two = (sum(a ** (i * j) for j in range(batches)) for i in (1, 2))
    return (eps * two + 0.25 * eps**2 * noise * batches / (batches - 1) * (two - one**2 / batches)) / (
        1 - a ** (2 * batches)
    )


def test_shuffled_epochs_are_another_chain_with_less_variance() -> None:
    n, size, eps, noise = 1000, 200, 0.5, 6.0
    density = gaussian(noise, size, n=n)
    epochs = n // size
    # Without replacement the mean of B of n rows has less variance, by (n - B) / (n - 1).
    without = noise * (n - size) / (n - 1)
    path = run(dynamics(density, Shuffled(n, size, KEY), eps), epochs * 2000, warmup=epochs * 40)
    found = moment(path[epochs - 1 :: epochs] ** 2)
    expected = shuffled_variance(eps, 1.0, without, epochs)
    assert agrees(found, expected)
    assert not agrees(found, stationary(eps, 1.0, noise), 0.05)


def _deviation_of_a_step(noise: np.ndarray, size: np.ndarray, by: Preconditioner) -> np.ndarray:
    return size * by.spread(noise)


def _without_the_half(position: np.ndarray, force: np.ndarray, spread: np.ndarray, size: float) -> np.ndarray:
    return position + size * force + spread


@pytest.mark.parametrize(("name", "mutant"), [("_spread", _deviation_of_a_step), ("_moved", _without_the_half)])
def test_mutants_of_the_step_disagree(name: str, mutant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sgld, name, mutant)
    density = gaussian(1.0, 4)
    found = moment(run(dynamics(density, Random(density.n, 4), 0.5), 4000) ** 2)
    assert not agrees(found, stationary(0.5, 1.0, 1.0), 0.1)


def test_mutants_of_the_gradient_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prior dropped; N/B dropped."""
    density = gaussian(1.0, 4, prior=0.5)
    made, right = dynamics(density, Random(density.n, 4), 0.5), stationary(0.5, 1.0, 1.0)
    assert agrees(moment(run(made, 4000) ** 2), right)
    no_prior = Density(density.target, density.rows, share=0.0)
    assert not agrees(moment(run(dynamics(no_prior, Random(density.n, 4), 0.5), 4000) ** 2), right, 0.1)

    def unscaled(self: Gradients, theta: np.ndarray, indices: np.ndarray) -> np.ndarray:
        target = self.density.target
        return target.prior_gradient(theta[None])[0] + target.gradient(theta[None], self.density.rows[indices])[0]

    monkeypatch.setattr(Gradients, "__call__", unscaled)
    assert not agrees(moment(run(made, 4000) ** 2), right, 0.1)


def test_one_key_used_twice_disagrees() -> None:
    """A mutant: every block of 8 steps has the numbers of the first."""
    density = gaussian(1.0, 4)
    made = dynamics(density, Random(density.n, 4), 0.5)
    for repeated in (False, True):
        state, paths = sgld.init(np.zeros(density.dimension)), []
        for block in range(500):
            state, found, _ = sgld.steps(made, state, KEY.generator(0 if repeated else block), 8)
            paths.append(found.positions)
        # Means over time have a deviation of 0.05; with the same numbers again and again they stay where they are.
        means = np.concatenate(paths[10:]).mean(axis=0)
        assert (np.abs(means).max() < 0.5) is not repeated


@pytest.mark.parametrize("whole", [False, True])
def test_a_preconditioner_gives_the_same_variance_in_its_coordinates(whole: bool) -> None:
    """On a target of other scales; a mutant has noise without the preconditioner."""
    density = gaussian(0.5 * 25, 4, precision=25.0, prior=5.0)
    by = preconditioning.Preconditioner(np.full(D, 1 / 25), np.full(D, 1 / 5))
    if whole:
        by = preconditioning.mode(25.0 * np.eye(D))
        np.testing.assert_allclose(by.matrix, np.eye(D) / 25, rtol=1e-12)
    made = Dynamics(Gradients(density), Random(density.n, 4), Schedule(0.5), by)
    right = stationary(0.5, 1.0, 0.5) / 25
    assert agrees(moment(run(made, 4000) ** 2), right)
    mutant = made.__class__(made.gradients, made.minibatches, made.schedule, by._replace(root=np.ones(D)))
    assert not agrees(moment(run(mutant, 4000) ** 2), right, 5.0)


def test_a_step_is_that_of_blackjax() -> None:
    """Its overdamped Langevin step is theta + eps/2 g + sqrt(eps) z, where eps/2 is called the step size."""
    rng = np.random.default_rng(1)
    theta, gradient, noise = rng.standard_normal((3, 5))
    step_size = 0.03
    theirs = theta + step_size * gradient + math.sqrt(2 * step_size) * noise
    np.testing.assert_allclose(
        sgld.step(theta, gradient, noise, 2 * step_size, preconditioning.none(5)), theirs, rtol=1e-14
    )


def test_blocks_do_not_depend_on_what_came_before() -> None:
    """The state and a block's number are all that a block needs, whatever minibatches are."""
    density = gaussian(1.0, 7)
    for minibatches in (Random(density.n, 7), Shuffled(density.n, 7, KEY)):
        made = dynamics(density, minibatches, 0.3)
        state, states = sgld.init(np.zeros(density.dimension)), []
        for block in range(6):
            state, _, _ = sgld.steps(made, state, KEY.generator(block), 16)
            states.append(state)
        fresh = dynamics(density, type(minibatches)(**_arguments(minibatches)), 0.3)
        again, _, _ = sgld.steps(fresh, states[3], KEY.generator(4), 16)
        np.testing.assert_array_equal(again.position, states[4].position)
        assert again.n_steps == states[4].n_steps


def _arguments(minibatches: Minibatches) -> dict[str, object]:
    return {"n": minibatches.n, "size": minibatches.size, **({"key": KEY} if isinstance(minibatches, Shuffled) else {})}


def test_weights_are_the_sizes_of_steps() -> None:
    density = gaussian(1.0, 4)
    falling = Schedule(0.4, after=10, power=0.6, floor=0.05)
    made = Dynamics(Gradients(density), Random(density.n, 4), falling, preconditioning.none(D))
    state, block, info = sgld.steps(made, sgld.init(np.zeros(D)), KEY.generator(0), 100)
    np.testing.assert_allclose(block.weights, np.maximum(0.05, 0.4 * (1 + np.arange(100) / 10) ** -0.6))
    _, later, _ = sgld.steps(made, state, KEY.generator(1), 5)
    np.testing.assert_allclose(later.weights, falling.sizes(100, 5))
    assert info.n_gradient == 400


def test_falling_steps_are_averaged_by_their_sizes() -> None:
    """A mean over time S = sum eps has variance 4 / S on a Gaussian of precision 1; unweighted it is far more.

    Variances of 2,000 coordinates have a standard error of 3%, and the checks have room for 5.5 of them.
    """
    d = 2000
    density = gaussian(0.2, 4, d=d)
    falling = Schedule(0.4, after=100, power=1.0)
    made = Dynamics(Gradients(density), Random(density.n, 4), falling, preconditioning.none(d))
    state, sums, time = sgld.init(KEY.generator(7).standard_normal(d)), np.zeros((2, d)), 0.0
    for block in range(100):
        state, found, _ = sgld.steps(made, state, KEY.generator(8 + block), 150)
        sums += np.stack([found.weights @ found.positions, found.positions.sum(axis=0)])
        time += float(found.weights.sum())
    weighted, plain = (sums[0] / time).var() * time / 4, (sums[1] / 15_000).var() * time / 4
    assert 0.8 < weighted < 1.25
    assert plain > 1.8


class Cliff:
    """A density whose gradient overflows beyond 1."""

    def __init__(self, target: object) -> None:
        self.target = target

    def __getattr__(self, name: str) -> object:
        return getattr(self.target, name)

    def prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        return np.where(np.abs(theta) > 1, np.inf, 0.0)


def test_a_step_out_of_the_finite_numbers_is_undone_and_counted() -> None:
    density = gaussian(1.0, 4)
    made = dynamics(Density(Cliff(density.target), density.rows), Random(density.n, 4), 0.1)
    inside = sgld.init(np.full(D, 0.5))
    state, block, info = sgld.steps(made, inside, KEY.generator(0), 64)
    assert np.isfinite(block.positions).all()
    assert info.n_undone > 0
    assert state.undone == info.n_undone  # once a coordinate is beyond, no step leads back
    state, _, info = sgld.steps(made, state, KEY.generator(1), 64)
    assert info.n_undone == 64
    assert state.undone > 100 - 64
    calm = dynamics(density, Random(density.n, 4), 0.1)
    state, _, info = sgld.steps(calm, state, KEY.generator(2), 1)
    assert (state.undone, info.n_undone) == (0, 0)


def test_rms_learns_the_sizes_of_gradients_and_is_then_frozen() -> None:
    density = gaussian(4.0, 4)
    made = dynamics(density, Random(density.n, 4), 1e-3)
    state, _, _ = sgld.steps(made, sgld.init(np.zeros(D)), KEY.generator(0), 2000, adapting=True)
    by = preconditioning.rms(state.squares, density.n)
    # At 0 the gradient of all events is noise of variance 4.
    np.testing.assert_allclose(np.mean(by.matrix), 1 / math.sqrt(4.0), rtol=0.2)
    frozen, _, _ = sgld.steps(made, state, KEY.generator(1), 64)
    np.testing.assert_array_equal(frozen.squares, state.squares)
