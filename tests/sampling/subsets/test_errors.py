"""How wrong decisions and chains may be: on chains of a few states, both kernels are matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streaminfer.sampling.randomness import Key
from streaminfer.sampling.settings import Stopping
from streaminfer.sampling.subsets import deciding, errors
from streaminfer.sampling.subsets.shuffling import Shuffled

KEY = Key(7, "steps")


def kernels(delta: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Metropolis on 6 states by uniform proposals, one with errors of acceptance of at most delta, and the target."""
    rng = np.random.default_rng(seed)
    target = rng.dirichlet(np.full(6, 2.0))
    accept = np.minimum(1.0, target[None] / target[:, None])
    wrong = np.clip(accept + delta * rng.choice([-1, 1], (6, 6)), 0, 1)
    return target, metropolis(accept), metropolis(wrong)


def metropolis(accept: np.ndarray) -> np.ndarray:
    """The matrix of transitions by uniform proposals, of the chances of being accepted."""
    matrix = accept / len(accept)
    np.fill_diagonal(matrix, 0)
    np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
    return np.asarray(matrix)


def stationary(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eig(matrix.T)
    found = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    return np.asarray(found / found.sum())


def contraction(matrix: np.ndarray) -> float:
    """Dobrushin's: the largest distance of two rows."""
    return max(0.5 * float(np.abs(a - b).sum()) for a in matrix for b in matrix)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_both_theorems_hold(seed: int, delta: float) -> None:
    target, right, wrong = kernels(delta, seed)
    np.testing.assert_allclose(stationary(right), target, atol=1e-12)
    distance = 0.5 * float(np.abs(stationary(wrong) - target).sum())
    eta = contraction(right)
    assert 0 < distance <= errors.by_contraction(delta, eta)
    # With h = 1 and nu the least of each column: lambda = 1 - the sum of them, and A = 1.
    rate = 1 - float(right.min(axis=0).sum())
    assert distance <= errors.by_ergodicity(delta, 1.0, 1, rate)


def test_the_error_of_one_step_is_not_that_of_the_chain() -> None:
    """A mutant: without 1 / (1 - eta), the sum over all later steps, the bound fails. All rare states are favoured."""
    target, delta = np.array([0.95, *[0.01] * 5]), 0.02
    right, wrong = (metropolis(alpha) for alpha in favoured(target, delta))
    distance = 0.5 * float(np.abs(stationary(wrong) - target).sum())
    assert delta < distance <= errors.by_contraction(delta, contraction(right))


def favoured(target: np.ndarray, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """The chances of being accepted, and those where the way to all states but the first is easier."""
    right = np.minimum(1.0, target[None] / target[:, None])
    wrong = right.copy()
    wrong[0] = np.minimum(1.0, wrong[0] + delta)
    wrong[:, 0] -= delta
    return right, wrong


def test_bounds_are_parts() -> None:
    assert errors.by_contraction(0.5, 0.9) == 1.0
    assert errors.by_ergodicity(0.01, 2.0, 3, 0.5) == pytest.approx(0.12)
    with pytest.raises(ValueError, match=r"eta must be at least 0 and below 1 \(got 1.0\)"):
        errors.by_contraction(0.1, 1.0)


@pytest.mark.parametrize("standard", [0.0, 0.5, 1.5])
@pytest.mark.parametrize("growth", [1.0, 2.0])
def test_the_walk_of_the_t_test(standard: float, growth: float) -> None:
    """Beside 4,000 tests on normal values whose mean is that far from the threshold, within 5.5 deviations."""
    n, first, error, rng = 2000, 200, 0.05, KEY.generator(0)
    sizes = list(deciding.sizes(Stopping("t", error, growth), first, n))
    expected = errors.sequential_error(standard, sizes, n, error)
    values = rng.standard_normal(n)
    values = (values - values.mean()) / values.std()
    gap, wrong = standard / math.sqrt(n - 1), 0
    order, test = Shuffled(n), Stopping("t", error, growth)
    for _ in range(4000):
        found = deciding.decide(lambda events: values[events], -gap, test, first, order, n, rng)
        wrong += found.enough and found.mean < -gap
    assert abs(wrong / 4000 - expected) < 5.5 * math.sqrt(expected * (1 - expected) / 4000) + 0.004


def test_the_largest_error_is_at_the_threshold() -> None:
    test = Stopping("t", 0.05)
    largest = errors.largest_acceptance_error(test, 100, 10_000)
    sizes = list(deciding.sizes(test, 100, 10_000))
    others = [errors.sequential_error(each, sizes, 10_000, 0.05) for each in (0.2, 0.5, 1.0, 2.0, 4.0)]
    assert largest > others[0] > others[1] > others[2] > others[3] > others[4]
    assert 0.05 < largest < 0.05 * len(sizes)  # more than one look, more than one chance
    assert errors.largest_acceptance_error(Stopping("hoeffding", 0.03), 100, 10_000) == 0.03
    assert errors.largest_acceptance_error(test, 100, 100) == 0.0


def test_the_error_of_acceptance_is_integrated_over_u() -> None:
    """Beside tests with u drawn anew; mistakes below and above the exact probability partly cancel."""
    n, first, rng = 1000, 100, KEY.generator(1)
    values = 0.15 * rng.standard_normal(n)
    values += -0.001 - values.mean()
    test, order, accepted, count = Stopping("t", 0.1), Shuffled(n), 0, 8000
    for _ in range(count):
        threshold = math.log1p(-rng.random()) / n
        found = deciding.decide(lambda events: values[events], threshold, test, first, order, n, rng)
        accepted += (found.mean if found.enough else values.mean()) > threshold
    exact = min(1.0, math.exp(n * values.mean()))
    sizes = list(deciding.sizes(test, first, n))
    expected = errors.acceptance_error(float(values.mean()), float(values.std()), 0.0, sizes, n, 0.1)
    assert abs(accepted / count - exact - expected) < 5.5 * math.sqrt(0.25 / count)
    assert abs(expected) <= errors.largest_acceptance_error(test, first, n)


@pytest.mark.parametrize("rule", ["hoeffding", "bernstein", "bernstein_serfling"])
def test_the_stopping_time_is_bounded(rule: str) -> None:
    n, rng, test = 20_000, KEY.generator(2), Stopping(rule, 0.05)
    values = rng.choice([-1.0, 1.0], n)
    order = Shuffled(n)
    for gap in (0.2, 0.6):
        bound = errors.stopping_time(test, 50, n, gap, 1.0)
        assert bound < n
        reads = [
            deciding.decide(lambda events: values[events], values.mean() - gap, test, 50, order, n, rng, 1.0).n_read
            for _ in range(100)
        ]
        assert sum(each > bound for each in reads) <= 5 + 5.5 * math.sqrt(5)
        assert max(reads) * 8 >= bound  # it says something
    assert errors.stopping_time(test, 50, n, 1e-6, 1.0) == n
