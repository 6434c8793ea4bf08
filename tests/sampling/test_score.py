"""Log predictive densities of events under draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from streaminfer.models.targets import target_of
from streaminfer.sampling.pooled import score
from tests.models.examples import Example, build
from tests.models.targets.cases import case, every_target


@every_target
@pytest.mark.parametrize("block", [1, 50, 1 << 18])
def test_blocks_give_the_mean_of_the_densities(example: Example, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target, rows, theta = case(example, n=40, k=7)
    monkeypatch.setattr("streaminfer.models.targets.parts.NUMBERS", block)
    expected = special.logsumexp(target.log_likelihood(theta, rows), axis=0) - np.log(7)
    np.testing.assert_allclose(score.log_predictive(target, theta, rows), expected, rtol=1e-11, atol=1e-12)
    assert score.total(target, theta, rows) == pytest.approx(expected.sum(), rel=1e-11)
    assert score.total(target, theta, rows[:0]) == 0.0


def test_it_is_the_log_of_a_mean_not_the_mean_of_logs() -> None:
    target = target_of(build("bernoulli", field="y"))
    theta = special.logit([[0.2], [0.6]])
    np.testing.assert_allclose(score.log_predictive(target, theta, np.array([[1.0], [0.0]])), np.log([0.4, 0.6]))


def test_events_far_from_all_draws() -> None:
    """Densities that are 0 in float64 have a log; one that has none counts as the least number there is."""
    target = target_of(build("gaussian", fields=["u"]))
    theta = np.array([[0.0, 0.0], [1.0, 0.0]])
    found = score.log_predictive(target, theta, np.array([[1e3], [1e100]]))
    assert found[0] == pytest.approx(-0.5 * 999**2 - 0.5 * np.log(2 * np.pi) - np.log(2), rel=1e-14)
    assert found[1] == pytest.approx(-5e199)
    impossible = score.total(target, np.array([[0.0, 300.0]]), np.array([[1e100], [0.0]]))
    assert np.isfinite(impossible)
    assert impossible < -1e200
