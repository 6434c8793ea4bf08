"""A posterior beside a long exact chain: differences within their errors, and chains that tell nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streaminfer.measuring import audit


def _chains(rng: np.random.Generator, rho: float, n: int = 4000) -> list[np.ndarray]:
    """Two numbers, N(1, 4) and N(0, 1), each a chain of autocorrelation rho."""
    noise = rng.standard_normal((4, n, 2)) * math.sqrt(1 - rho**2)
    found = np.empty((4, n, 2))
    found[:, 0] = rng.standard_normal((4, 2))
    for t in range(1, n):
        found[:, t] = rho * found[:, t - 1] + noise[:, t]
    return list(found * [2.0, 1.0] + [1.0, 0.0])


def test_moments_are_compared_with_a_chain_within_its_error() -> None:
    """z-scores of 60 chains: their own deviation is 1, give or take 5.5 of its errors."""
    rng, z = np.random.default_rng(5), []
    for _ in range(60):
        found = audit.compared(audit.Published(np.array([1.0, 0.5]), np.array([2.0, 2.0])), _chains(rng, 0.6, 1000))
        z.append([*((found.shift - [0, -0.25]) / found.shift_se), *((found.ratio - [1, 0.5]) / found.ratio_se)])
    assert (np.abs(np.mean(z, axis=0)) < 5.5 / math.sqrt(60)).all()
    np.testing.assert_allclose(np.std(z, axis=0), 1, atol=5.5 / math.sqrt(120))


def test_a_published_deviation_that_is_too_small_holds_too_little() -> None:
    """0.7 of the true one: 95% intervals hold 83%. Draws that are few add their own error."""
    chains = _chains(np.random.default_rng(6), 0.5)
    narrow = audit.compared(audit.Published(np.array([1.0, 0.0]), np.array([2.0, 0.7])), chains)
    expected = [math.erf(1.96 * part / math.sqrt(2)) for part in (1.0, 0.7)]
    assert (np.abs(narrow.coverage - expected) < 5.5 * narrow.coverage_se).all()
    assert narrow.coverage[1] + 5.5 * narrow.coverage_se[1] < 0.9
    few = audit.compared(audit.Published(np.array([1.0, 0.0]), np.array([2.0, 1.0]), n_draws=100), chains)
    assert (few.shift_se > 0.1).all()


def test_chains_that_tell_nothing_are_refused() -> None:
    published = audit.Published(np.zeros(1), np.ones(1))
    with pytest.raises(ValueError, match="at least 8 draws"):
        audit.compared(published, [np.zeros((3, 1))])
    with pytest.raises(ValueError, match="does not vary"):
        audit.compared(published, [np.zeros((30, 1))])
