"""Diagnostics equal ArviZ's, k-hat has the right sign, and Geweke's score is calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats

from streaminfer.measuring import diagnostics, geweke
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.sampling.pooled import effective


def ar1(rng: np.random.Generator, rho: float, n: int, c: int) -> np.ndarray:
    """c stationary chains (n, c) of variance 1."""
    noise = rng.standard_normal((n, c))
    found = noise.copy()
    for t in range(1, n):
        found[t] = rho * found[t - 1] + np.sqrt(1 - rho**2) * noise[t]
    return found


def chains(rho: float, n: int = 500) -> np.ndarray:
    """(4, n, 3), of which one coordinate disagrees between chains and one does not move."""
    found = ar1(np.random.default_rng(1), rho, n, 12).reshape(n, 4, 3).transpose(1, 0, 2).copy()
    found[:, :, 1] += np.arange(4)[:, None]
    found[:, :, 2] = 7.0
    return found


def test_they_are_those_of_arviz_and_a_constant_has_none() -> None:
    draws = chains(0.5)
    found = diagnostics.measure(draws)
    for j in (0, 1):
        one = draws[:, :, j]
        assert found.r_hat[j] == pytest.approx(float(array_stats.rhat(one, method="rank")), rel=1e-12)
        assert found.bulk[j] == pytest.approx(float(array_stats.ess(one, method="bulk")), rel=1e-12)
        assert found.tail[j] == pytest.approx(float(array_stats.ess(one, method="tail", prob=(0.05, 0.95))), rel=1e-12)
        assert found.mcse[j] == pytest.approx(float(array_stats.mcse(one, method="mean")), rel=1e-12)
    assert found.r_hat[0] < 1.05 < 1.2 < found.r_hat[1]
    assert np.isnan([column[2] for column in found]).all()


def test_the_count_of_running_chains_is_that_of_arviz_without_ranks() -> None:
    draws = chains(0.6)[:, :, :2]
    right = [float(array_stats.ess(draws[:, :, j], method="mean")) for j in range(2)]
    np.testing.assert_allclose(effective.by_coordinate(list(draws)), right, rtol=0.02)  # they end the sum differently


def test_chains_of_different_lengths_count_from_their_ends() -> None:
    draws = chains(0.5)
    ragged = [draws[0], draws[1][100:], draws[2][50:], draws[3]]
    np.testing.assert_array_equal(diagnostics.measure(ragged), diagnostics.measure(draws[:, 100:]))


def test_k_hat_of_a_wider_target() -> None:
    """p = N(0, 2), q = N(0, 1): k is 1/2 in the limit. The mutant, the other sign, has no tail at all."""
    x = np.random.default_rng(2).standard_normal((50, 1000))
    ratios = 0.5 * x**2 - 0.25 * x**2
    assert 0.40 < np.mean([diagnostics.k_hat(row) for row in ratios]) < 0.56
    assert np.mean([diagnostics.k_hat(-row) for row in ratios]) < -1


def test_effective_draws_per_second() -> None:
    np.testing.assert_allclose(diagnostics.per_second(np.array([100.0, 50.0]), 4.0), [25, 12.5])
    with pytest.raises(Unknowable, match="took 0 s"):
        diagnostics.per_second(np.ones(1), 0.0)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_gewekes_score_of_stationary_chains_is_a_standard_normal_number(rho: float) -> None:
    """1,000 chains know its deviation to 2.3%. At 0.9 the first tenth of 5,000 draws is worth 26, hence the width."""
    found = geweke.score(ar1(np.random.default_rng(3), rho, 5000, 1000))
    assert abs(found.mean()) < 5.5 / np.sqrt(1000)
    assert 0.87 < found.std() < 1.22


def test_the_variance_of_independent_draws_would_find_them_at_fault() -> None:
    """The mutant."""
    chain = ar1(np.random.default_rng(4), 0.9, 5000, 200)
    begin, end = chain[:500], chain[2500:]
    z = (begin.mean(axis=0) - end.mean(axis=0)) / np.sqrt(begin.var(axis=0) / 500 + end.var(axis=0) / 2500)
    assert z.std() > 2.5


def test_gewekes_score_of_a_chain_that_moves_away() -> None:
    chain = ar1(np.random.default_rng(5), 0.5, 2000, 20)
    assert (np.abs(geweke.score(chain + np.linspace(0, 3, 2000)[:, None])) > 5).all()
    assert np.isnan(geweke.score(np.column_stack([chain[:, 0], np.ones(2000)]))[1])


@pytest.mark.parametrize("rho", [-0.5, 0.5, 0.9])
def test_the_spectrum_at_0_of_an_autoregression(rho: float) -> None:
    found = geweke.spectrum_at_0(ar1(np.random.default_rng(6), rho, 4000, 200)).mean()
    assert found == pytest.approx((1 + rho) / (1 - rho), rel=0.08)


def test_what_cannot_be_told_says_why() -> None:
    with pytest.raises(Unknowable, match="A chain has 3 draws, and 4 are needed"):
        diagnostics.measure(np.zeros((2, 3, 1)))
    with pytest.raises(Unknowable, match="not finite"):
        diagnostics.measure(np.full((2, 30, 1), np.nan))
    with pytest.raises(Unknowable, match="99 draws, and 100 are needed"):
        geweke.score(np.zeros((99, 1)))
    with pytest.raises(Unknowable, match="Log densities"):
        diagnostics.k_hat(np.full(50, -np.inf))
    alone = diagnostics.measure(np.random.default_rng(1).standard_normal((1, 50, 1)))
    assert np.isnan(alone.r_hat[0])
    assert alone.bulk[0] > 10
