"""Movement of posteriors of known data: 1 for a right model, whatever d and the growth; planted errors are off."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streaminfer.measuring.movement import Gaussian, Movement, kl, measure


def _moved(rng: np.random.Generator, d: int, before: int, after: int, narrow: float = 1.0) -> Movement:
    """The mean of N(0, I) events under a flat prior; `narrow` scales published deviations."""
    first = rng.standard_normal(d) / math.sqrt(before)
    rest = rng.standard_normal(d) / math.sqrt(after - before)
    mean = (before * first + (after - before) * rest) / after
    old, new = (np.eye(d) * narrow**2 / n for n in (before, after))
    return measure(Gaussian(mean, new, after), Gaussian(first, old, before))


@pytest.mark.parametrize(("d", "growth"), [(1, 2), (5, 2), (5, 10), (20, 1.1)])
def test_a_right_model_moves_by_one_and_as_much_around_it_as_is_told(d: int, growth: float) -> None:
    rng = np.random.default_rng(1)
    found = [_moved(rng, d, 1000, int(1000 * growth)) for _ in range(2000)]
    values, se = np.array([each.value for each in found]), found[0].se
    assert abs(values.mean() - 1) < 5.5 * values.std() / math.sqrt(len(values))
    # A deviation of skewed values; kurtosis of one squared normal is 12 at most.
    assert values.std() == pytest.approx(se, rel=5.5 * math.sqrt(14 / 4 / len(values)))


def test_a_posterior_that_is_too_sure_moves_too_far() -> None:
    found = _moved(np.random.default_rng(2), 20, 1000, 2000, narrow=0.4)
    assert found.value > 1 + 5.5 * found.se


def test_the_divergence_is_that_of_gaussians() -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((4, 4)) for _ in range(2))
    new, old = Gaussian(rng.normal(size=4), a @ a.T, 2), Gaussian(rng.normal(size=4), b @ b.T, 1)
    inverse, away = np.linalg.inv(old.cov), new.mean - old.mean
    expected = np.trace(inverse @ new.cov) - 4 + away @ inverse @ away
    expected += np.linalg.slogdet(old.cov)[1] - np.linalg.slogdet(new.cov)[1]
    assert kl(new, old) == pytest.approx(0.5 * expected, rel=1e-9)
    assert kl(new, new) == pytest.approx(0, abs=1e-9)
    scale = np.array([1e-8, 1.0, 1e5, 1e12])
    far = [g._replace(mean=scale * g.mean, cov=scale[:, None] * g.cov * scale) for g in (new, old)]
    assert kl(*far) == pytest.approx(0.5 * expected, rel=1e-6)


def test_what_has_no_movement_is_refused_by_name() -> None:
    one = Gaussian(np.zeros(2), np.eye(2), 10)
    with pytest.raises(ValueError, match="events must grow"):
        measure(one, one)
    with pytest.raises(ValueError, match="singular"):
        measure(one._replace(cov=np.ones((2, 2)), n_events=20), one)
