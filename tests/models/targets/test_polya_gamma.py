"""Draws of PG(1, c) beside its Laplace transform, E exp(-t w) = cosh(c / 2) / cosh(sqrt(c^2 / 4 + t / 2)).

Statistical checks leave 6 standard errors: each false alarm is below 2e-9.
"""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.models.targets.kinds import polya_gamma


@pytest.mark.parametrize("c", [0.0, 1e-8, 0.3, -1.0, 2.0, 3.1, -3.2, 5.0, 20.0, 300.0, 1e6])
def test_draws_have_the_laplace_transform(c: float) -> None:
    draws = polya_gamma.sample(np.full(40_000, c), np.random.default_rng(7))
    assert (draws > 0).all()
    size = 0.25 if abs(c) < 1e-6 else np.tanh(abs(c) / 2) / (2 * abs(c))
    assert abs(draws.mean() - size) < 6 * draws.std() / 200
    for t in (0.3 / size, 3 / size, 30 / size):
        root = np.sqrt(0.25 * c * c + 0.5 * t)
        log = _log_cosh(abs(c) / 2) - _log_cosh(root)
        values = np.exp(-t * draws)
        assert abs(values.mean() - np.exp(log)) < 6 * values.std() / 200


def _log_cosh(x: float) -> float:
    return float(x + np.log1p(np.exp(-2 * x)) - np.log(2))


def test_each_draw_is_of_its_own_c() -> None:
    c = np.repeat([0.1, 4.0, 50.0], 20_000)
    draws = polya_gamma.sample(np.random.default_rng(8).permutation(c), np.random.default_rng(9))
    order = np.random.default_rng(8).permutation(c)
    for each in (0.1, 4.0, 50.0):
        own = draws[order == each]
        assert abs(own.mean() - np.tanh(each / 2) / (2 * each)) < 6 * own.std() / np.sqrt(20_000)
