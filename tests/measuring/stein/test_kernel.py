"""The kernel Stein discrepancy against closed forms, plain loops and repetitions."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from streaminfer.measuring import whitening
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.stein import kernel
from streaminfer.measuring.stein.kernel import Discrepancy
from streaminfer.measuring.whitening import Whitening


def plain(d: int) -> Whitening:
    return Whitening(np.zeros(d), np.eye(d))


def by_loops(u: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """U- and V-statistic with derivatives of the kernel by differences of the kernel itself."""

    def k(x: np.ndarray, y: np.ndarray) -> float:
        return float((1 + ((x - y) ** 2).sum()) ** -0.5)

    def stein(x: np.ndarray, s: np.ndarray, y: np.ndarray, t: np.ndarray) -> float:
        h, total = 1e-4, s @ t * k(x, y)
        for e in h * np.eye(len(x)):
            by_x, by_y = (k(x + e, y) - k(x - e, y)) / (2 * h), (k(x, y + e) - k(x, y - e)) / (2 * h)
            both = (k(x + e, y + e) - k(x + e, y - e) - k(x - e, y + e) + k(x - e, y - e)) / (4 * h * h)
            total += t @ e / h * by_x + s @ e / h * by_y + both
        return float(total)

    n, w = len(u), weights / weights.sum()
    values = np.array([[stein(u[i], scores[i], u[j], scores[j]) for j in range(n)] for i in range(n)])
    v = w @ values @ w
    return float((v - w**2 @ np.diag(values)) / (1 - w @ w)), float(v)


def test_all_pairs_with_weights_as_by_loops() -> None:
    rng = np.random.default_rng(1)
    theta, scores, weights = rng.standard_normal((12, 3)), rng.standard_normal((12, 3)), rng.random(12)
    found = kernel.measure(theta, scores, weights=weights, place=plain(3))
    np.testing.assert_allclose((found.u, found.v), by_loops(theta, scores, weights), rtol=1e-6)


@pytest.mark.parametrize("d", [1, 4])
def test_an_atom_is_its_square_and_the_dimension_away(d: int) -> None:
    x = np.full((3, d), 0.7)
    assert kernel.measure(x, -x, place=plain(d)).v == pytest.approx(0.49 * d + d, rel=1e-12)


@pytest.mark.parametrize("a", [0.1, 0.7, 3.0])
def test_two_atoms(a: float) -> None:
    x, u = np.array([[a], [-a], [a], [-a]]), 1 / (1 + 4 * a * a)
    right = 0.5 * (a * a + 1) + 0.5 * np.sqrt(u) * (-a * a + u * (1 - 4 * a * a - 12 * a * a * u))
    assert kernel.measure(x, -x, place=plain(1)).v == pytest.approx(right, rel=1e-12)


def test_the_unit() -> None:
    found = [kernel.kappa(d) for d in (1, 2, 10, 50)]
    np.testing.assert_allclose(found, [0.7058, 0.5456, 0.2343, 0.1010], atol=5e-5)


def shifted(rng: np.random.Generator, n: int, d: int, shift: float, is_difference: bool = False) -> Discrepancy:
    """Draws of N((shift, 0, ...), I) against N(0, I)."""
    mean = np.zeros(d)
    mean[0] = shift
    x = mean + rng.standard_normal((n, d))
    return kernel.measure(x, -x, drawn_from=mean - x if is_difference else None, place=plain(d))


@pytest.mark.parametrize("is_difference", [False, True])
@pytest.mark.parametrize("d", [1, 2, 10])
def test_a_shift_is_found_in_posterior_deviations(d: int, is_difference: bool) -> None:
    """Means over 40 repetitions; delta^2 has no bias. The difference form is 10 times as exact at 0.3."""
    rng = np.random.default_rng(d)
    for shift in (0.3, 1.5):
        runs = [shifted(rng, 400, d, shift, is_difference) for _ in range(40)]
        square = np.array([run.u for run in runs]) / kernel.kappa(d)
        error = np.sqrt(np.mean([run.u_se**2 for run in runs]) / 40) / kernel.kappa(d)
        assert abs(square.mean() - shift**2) < 5.5 * error < 0.4 * shift**2
        if is_difference and shift < 1:
            assert error < 0.003
        one = runs[0]
        assert abs(one.delta - shift) < 5.5 * one.delta_se < shift + 0.5


@pytest.mark.parametrize(("d", "shift"), [(1, 0.0), (10, 0.0), (2, 1.0)])
def test_standard_errors_are_those_of_repetitions(d: int, shift: float) -> None:
    """300 repetitions know a deviation to 4%, or 10% at no shift: U is then a sum of squares, with a long tail."""
    rng = np.random.default_rng(7)
    runs = [shifted(rng, 150, d, shift) for _ in range(300)]
    spread = np.std([run.u for run in runs]) / np.sqrt(np.mean([run.u_se**2 for run in runs]))
    assert 0.6 < spread < 1.5


def test_exact_draws_are_not_away_and_with_themselves_they_would_be() -> None:
    """The mutant: pairs of a draw with itself count, so that 200 exact draws of ten numbers are 0.6 away."""
    rng = np.random.default_rng(3)
    found = shifted(rng, 200, 10, 0.0)
    assert found.u < 5.5 * found.u_se
    assert np.sqrt(found.v / kernel.kappa(10)) > 0.5


def test_new_draws_can_come_in_parts() -> None:
    rng = np.random.default_rng(4)
    theta, scores, weights = rng.standard_normal((1300, 2)), rng.standard_normal((1300, 2)), rng.random(1300)
    whole = kernel.measure(theta, scores, weights=weights, place=plain(2))
    state = kernel.init(plain(2))
    for part in (slice(0, 5), slice(5, 700), slice(700, 1300)):
        state = kernel.step(state, theta[part], scores[part], weights[part])
    np.testing.assert_allclose(kernel.result(state), whole, rtol=1e-9)


def test_a_weight_of_two_is_the_draw_twice() -> None:
    rng = np.random.default_rng(5)
    theta, twice = rng.standard_normal((20, 2)), np.repeat([1, 2], 10)
    weighted = kernel.measure(theta, -theta, weights=twice.astype(float), place=plain(2))
    repeated = np.repeat(theta, twice, axis=0)
    assert kernel.measure(repeated, -repeated, place=plain(2)).v == pytest.approx(weighted.v, rel=1e-12)


def test_units_and_correlations_do_not_matter() -> None:
    rng = np.random.default_rng(6)
    theta, scores = rng.standard_normal((50, 2)), rng.standard_normal((50, 2))
    turn = np.array([[1e5, 3.0], [2.0, 1e-4]])
    other = kernel.measure(theta @ turn.T + 7, scores @ np.linalg.inv(turn))
    np.testing.assert_allclose(other, kernel.measure(theta, scores), rtol=1e-6)


def test_a_mode_that_no_draw_reached_is_not_seen() -> None:
    """It cannot be: at all draws the scores are those of a single mode."""
    theta = 10 + np.random.default_rng(7).standard_normal((500, 1))
    right = 1 / (1 + np.exp(-20 * theta))
    scores = -(theta - 10) * right - (theta + 10) * (1 - right)
    found = kernel.measure(theta, scores, place=Whitening(np.full(1, 10.0), np.eye(1)))
    assert found.u < 5.5 * found.u_se


def test_memory_does_not_grow_with_the_pairs() -> None:
    theta = np.random.default_rng(8).standard_normal((3000, 10))
    tracemalloc.start()
    kernel.measure(theta, -theta)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20e6  # all pairs have 72 MB


def test_what_cannot_be_told_says_why() -> None:
    x = np.random.default_rng(9).standard_normal((2, 1))
    with pytest.raises(Unknowable, match="2 draws that count, and 3 are needed"):
        kernel.measure(x, -x, place=plain(1))
    with pytest.raises(Unknowable, match="Scores must be finite"):
        kernel.measure(x, x * np.nan, place=plain(1))
    many = np.zeros((kernel.MOST + 1, 1))
    with pytest.raises(Unknowable, match="at most 50,000"):
        kernel.measure(many, many, place=plain(1))
    with pytest.raises(Unknowable, match="does not move"):
        whitening.of_draws(np.ones((10, 2)))
