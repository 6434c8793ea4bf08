"""sgrld beside the Dirichlet posterior of categorical events.

Checks leave 5.5 Monte Carlo standard errors, from 200 batches: a false alarm is below 1e-6 each.
"""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.models.targets import target_of
from streaminfer.sampling.gradients.minibatches import Random
from streaminfer.sampling.kernels import sgrld
from streaminfer.sampling.randomness import Key
from tests.models.examples import build

KEY = Key(10, "steps")
COUNTS = np.array([40.0, 25.0, 10.0, 25.0])


def run(
    concentration: np.ndarray, counts: np.ndarray, steps: int, size: float, transition: sgrld.Transition, chains: int
) -> np.ndarray:
    """Probabilities (steps, chains, K) with all events in each step."""
    rng = KEY.generator(0)
    posterior = concentration + counts
    state = sgrld.init(rng.standard_gamma(np.broadcast_to(posterior, (chains, len(posterior)))) + 1e-3)
    found = np.empty((steps, chains, len(posterior)))
    whole = np.broadcast_to(counts, state.weights.shape)
    for t in range(steps + 200):
        state, info = sgrld.advance(state, concentration, whole, rng, size, transition)
        assert not info.n_undone
        if t >= 200:
            found[t - 200] = sgrld.probabilities(state.weights)
    return found


def z_scores(values: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Of means over steps and chains (steps, chains, K); chains are independent."""
    each = values.mean(axis=0)
    return (each.mean(axis=0) - expected) / (each.std(axis=0, ddof=1) / np.sqrt(len(each)))


def moments(posterior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E p and E p^2 of a Dirichlet."""
    total = posterior.sum()
    return posterior / total, posterior * (posterior + 1) / (total * (total + 1))


@pytest.mark.parametrize("transition", ["euler", "cir"])
def test_moments_are_those_of_the_dirichlet(transition: sgrld.Transition) -> None:
    """Small steps; with all events in each step exact transitions have no error, whatever their size."""
    concentration = np.array([1.0, 2.0, 0.5, 1.5])
    size = 0.002 if transition == "euler" else 1.0
    chains = 2000 if transition == "euler" else 1000
    found = run(concentration, COUNTS, 1000 if transition == "euler" else 60, size, transition, chains)
    mean, second = moments(concentration + COUNTS)
    assert np.abs(z_scores(found, mean)).max() < 5.5
    variances = ((found - mean) ** 2).mean(axis=(0, 1)) / (second - mean**2)
    errors = ((found - mean) ** 2).mean(axis=0).std(axis=0) / np.sqrt(chains) / (second - mean**2)
    assert (5.5 * errors < 0.12).all()
    assert (np.abs(variances - 1) < (0.02 if transition == "euler" else 0) + 5.5 * errors).all()


def test_empty_cells_need_exact_transitions() -> None:
    """prior + count = 0.1: mirrored steps keep such a cell too large, and exact ones do not."""
    concentration, counts = np.full(3, 0.1), np.array([20.0, 10.0, 0.0])
    mean, _ = moments(concentration + counts)
    exact = run(concentration, counts, 400, 1.0, "cir", 400)
    assert np.abs(z_scores(exact, mean)).max() < 5.5
    euler = run(concentration, counts, 3000, 0.01, "euler", 200)
    assert euler[..., 2].mean() > 1.3 * mean[2]


def test_minibatches_are_counted_and_scaled() -> None:
    target = target_of(build("categorical", field="c", categories=["a", "b", "c"]))
    rows = np.repeat([0.0, 1.0, 2.0], [50, 30, 20])[:, None]
    np.testing.assert_array_equal(target.counts(rows), [50, 30, 20])
    indices = Random(100, 40).indices(KEY.generator(1), 0, 500)
    counts = sgrld.scaled_counts(rows[:, 0], indices, 3)
    assert counts.shape == (500, 3)
    np.testing.assert_allclose(counts.sum(axis=1), 100)
    assert np.abs(counts.mean(axis=0) - [50, 30, 20]).max() < 1.5
    np.testing.assert_array_equal(counts[7], 2.5 * np.bincount(rows[indices[7], 0].astype(int), minlength=3))


def test_minibatch_chains_have_the_right_mean_and_a_little_more_variance() -> None:
    """500 chains side by side, each with minibatches of its own."""
    target = target_of(build("categorical", field="c", categories=["a", "b", "c"]))
    rows = np.repeat([0.0, 1.0, 2.0], [500, 300, 200])[:, None]
    posterior, rng = target.concentration + target.counts(rows), KEY.generator(3)
    mean, second = moments(posterior)
    state = sgrld.init(10 * rng.dirichlet(posterior, 500))
    found = np.empty((1500, 500, 3))
    for t in range(-300, 1500):
        counts = sgrld.scaled_counts(rows[:, 0], Random(1000, 100).indices(rng, t, 500), 3)
        state, _ = sgrld.advance(state, target.concentration, counts, rng, 2e-4)
        found[max(t, 0)] = sgrld.probabilities(state.weights)
    # Gradient noise adds variance, and whether weights are large or small it adds a little to means.
    each = found.mean(axis=0)
    assert (
        np.abs(each.mean(axis=0) - mean) < 5.5 * each.std(axis=0) / np.sqrt(500) + 0.1 * np.sqrt(second - mean**2)
    ).all()
    squares = ((found - mean) ** 2).mean(axis=0) / (second - mean**2)
    error = squares.std(axis=0) / np.sqrt(500)
    assert (squares.mean(axis=0) > 1 - 5.5 * error).all()
    assert (squares.mean(axis=0) < 1.3 + 5.5 * error).all()


def test_blocks_are_steps() -> None:
    counts, sizes = np.tile(COUNTS, (30, 1)), np.full(30, 0.01)
    state, rng, path = sgrld.init(np.ones(4)), KEY.generator(4), []
    for each, size in zip(counts, sizes, strict=True):
        state, _ = sgrld.advance(state, 1.0, each, rng, size)
        path.append(sgrld.probabilities(state.weights))
    after, positions, info = sgrld.steps(sgrld.init(np.ones(4)), np.ones(4), counts, KEY.generator(4), sizes)
    np.testing.assert_array_equal(positions, np.array(path))
    assert (after.n_steps, info.n_undone) == (30, 0)


def test_a_step_is_the_formula_with_its_mirror() -> None:
    weights, noise = np.array([0.5, 2.0, 1e-4]), np.array([0.3, -1.0, -3.0])
    counts, eps = np.array([3.0, 4.0, 0.0]), 0.01
    p = weights / weights.sum()
    expected = np.abs(weights + 0.5 * eps * (0.1 - weights + counts - 7 * p) + np.sqrt(weights) * np.sqrt(eps) * noise)
    np.testing.assert_allclose(sgrld.step(weights, 0.1, counts, noise, eps), expected, rtol=1e-14)


def test_what_leaves_the_finite_numbers_is_undone() -> None:
    state = sgrld.init(np.ones(3))
    after, info = sgrld.advance(state, 1.0, np.array([np.inf, 1.0, 1.0]), KEY.generator(0), 0.1)
    np.testing.assert_array_equal(after.weights, state.weights)
    assert (after.undone, info.n_undone, after.n_steps) == (1, 1, 1)
