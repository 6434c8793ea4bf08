"""Predictive densities with large parameters, against 50 digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from streaminfer.models.predictive import log_negative_binomial, log_rising, log_student_t


@pytest.mark.parametrize("a", [1e-3, 0.5, 7.0, 63.9, 64.0, 1e3, 1e6, 1e9, 1e15])
@pytest.mark.parametrize("k", [0.0, 0.5, 1.0, 5.0, 300.0, 1e6])
def test_log_rising(a: float, k: float) -> None:
    with mp.workdps(50):
        exact = float(mp.loggamma(mp.mpf(a) + mp.mpf(k)) - mp.loggamma(mp.mpf(a)))
    assert float(log_rising(a, np.array(k))) == pytest.approx(exact, rel=1e-13, abs=1e-13)


def test_a_plain_difference_of_log_gammas_would_fail() -> None:
    from scipy.special import gammaln

    with mp.workdps(50):
        exact = float(mp.loggamma(mp.mpf(10) ** 9 + 5) - mp.loggamma(mp.mpf(10) ** 9))
    assert abs(float(gammaln(1e9 + 5) - gammaln(1e9)) - exact) > 1e-9


def test_a_sharp_gamma_gives_the_poisson() -> None:
    k = np.arange(20.0)
    exact = [float(k_ * mp.log(3) - 3 - mp.loggamma(k_ + 1)) for k_ in k.tolist()]
    np.testing.assert_allclose(log_negative_binomial(k, np.full(20, 2.0), 1.5e13, 1e13), exact, rtol=1e-10)


def test_a_t_with_many_degrees_of_freedom_is_the_gaussian() -> None:
    squares = np.array([0.0, 1.0, 9.0])
    exact = -0.5 * squares - 1.5 * np.log(2 * np.pi) - 0.5 * 0.7
    np.testing.assert_allclose(log_student_t(squares, 1e13, 3, 0.7), exact, rtol=1e-10)
