"""Priors to a power, Jacobian included: what they are, and when they are densities by themselves.

Statistical checks leave 6 standard errors.
"""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.models.targets import target_of
from streaminfer.models.targets.kinds import precision
from tests.contracts.test_targets import assert_stein
from tests.models.examples import build


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25])
def test_a_tempered_normal_inverse_wishart_has_a_gamma_on_its_diagonal(share: float) -> None:
    """L_ii^2 ~ Gamma((share (dof + 2 - i) - 1) / 2, share scale_ii / 2), the rest is Gaussian given that.

    The shape must be above 0 for i = d: this is the condition of `is_proper`.
    """
    prior = {"mean": [1, -2], "kappa": 0.5, "dof": 8.0, "scale": [2, 0.5]}
    target = target_of(build("gaussian", fields=["u", "v"], prior=prior))
    rng, n, d = np.random.default_rng(1), 20_000, 2
    lower = np.zeros((n, d, d))
    for i in range(d):
        shape = 0.5 * (share * (8.0 + 1 - i) - 1)
        lower[:, i, i] = np.sqrt(rng.gamma(shape, 2 / (share * target.prior.scale[i, i]), n))
    lower[:, 1, 0] = rng.standard_normal(n) / np.sqrt(share * target.prior.scale[1, 1])
    noise = rng.standard_normal((n, d, 1)) / np.sqrt(share * 0.5)
    means = target.prior.mean + np.linalg.solve(np.swapaxes(lower, 1, 2), noise)[..., 0]
    theta = np.hstack([means, precision.entries(lower)])
    assert_stein(share * target.prior_gradient(theta), theta)


def test_when_a_tempered_prior_is_proper() -> None:
    gaussian = target_of(build("gaussian", fields=["u", "v"], prior={"dof": 8.0}))
    assert [gaussian.is_proper_prior(1 / j) for j in (1, 7, 8, 9)] == [True, True, False, False]
    mixture = target_of(build("gaussian_mixture", fields=["u"], components=2, prior={"dof": 3.0}))
    assert [mixture.is_proper_prior(1 / j) for j in (1, 3, 4)] == [True, True, False]
    line = target_of(build("linear_regression", features=["a", "b"], target="y", prior={"shape": 4.0}))
    # a > d (J - 1) / 2 with d = 3 weights.
    assert [line.is_proper_prior(1 / j) for j in (1, 3, 4)] == [True, True, False]


def test_too_few_events_for_a_tempered_prior_are_an_error() -> None:
    line = target_of(build("linear_regression", features=["a"], target="y"))
    rows = line.rows(np.array([[1.0, 2.0]]))
    with pytest.raises(ValueError, match="needs more events"):
        line.sample_posterior(line.summary(rows), 0.1, np.random.default_rng(1))
