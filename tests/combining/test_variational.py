"""VCMC by a kernel Stein discrepancy, and averages beside NumPyro's."""

from __future__ import annotations

import numpy as np
import pytest

from streaminfer.combining.methods import variational
from streaminfer.combining.part import Gaussian, Options, Refused
from streaminfer.combining.table import COMBINERS
from tests.combining.gaussians import exact, heterogeneous, part


def discrepancy(x: np.ndarray, scores: np.ndarray) -> float:
    """The squared kernel Stein discrepancy (V-statistic), inverse multiquadric (1 + r^2)^(-1/2)."""
    away = x[:, None] - x[None]
    r2 = (away**2).sum(axis=-1)
    base = 1 + r2
    d = x.shape[1]
    cross = ((scores[:, None] - scores[None]) * away).sum(axis=-1)
    kernel = base**-0.5 * (scores @ scores.T) + base**-1.5 * (cross + d) - 3 * base**-2.5 * r2
    return float(kernel.mean())


def test_the_discrepancy_of_one_atom() -> None:
    x = np.array([[1.5, -2.0]])
    assert discrepancy(x, -x) == pytest.approx((x**2).sum() + 2)


def test_vcmc_is_no_worse_than_equal_weights_on_a_skewed_target() -> None:
    """Poisson rates on the log scale: log gamma subposteriors of very different counts."""
    shapes = np.array([[2.0, 30.0], [20.0, 3.0], [5.0, 5.0]])
    scale = np.array([[1.0, 6.0], [8.0, 1.0], [2.0, 3.0]])

    def gradient(theta: np.ndarray) -> np.ndarray:
        return shapes.sum(axis=0) - scale.sum(axis=0) * np.exp(theta)

    for seed in range(3):
        rng = np.random.default_rng(seed)
        parts = [part(np.log(rng.gamma(a, 1 / b, (2000, 2)))) for a, b in zip(shapes, scale, strict=True)]
        found = COMBINERS["variational"](parts, rng, Options(gradient=gradient, n=1000))
        equal = COMBINERS["average"](parts, rng, Options(weights="equal", n=1000))
        assert discrepancy(found.draws, gradient(found.draws)) < discrepancy(equal.draws, gradient(equal.draws))


def test_weights_stay_positive_and_sum_to_the_identity() -> None:
    rng = np.random.default_rng(1)
    found = variational.feasible(rng.standard_normal((5, 3, 3)), 1e-3)
    np.testing.assert_allclose(found.sum(axis=0), np.eye(3), atol=1e-12)
    assert np.linalg.eigvalsh(found).min() > 0


def test_the_gradient_is_needed_and_finite() -> None:
    rng = np.random.default_rng(2)
    parts = [part(rng.standard_normal((100, 2)))] * 2
    with pytest.raises(Refused, match="gradient"):
        COMBINERS["variational"](parts, rng, Options())
    with pytest.raises(Refused, match="not finite"):
        COMBINERS["variational"](parts, rng, Options(gradient=lambda theta: theta * np.nan))


@pytest.mark.parametrize("weights", ["full", "diagonal"])
def test_numpyro_agrees(weights: str) -> None:
    """Its numbers are of single precision."""
    from numpyro.infer.hmc_util import consensus, parametric

    rng = np.random.default_rng(3)
    draws = [exact(Gaussian(g.mean, g.cov), 500, rng) for g in heterogeneous(4, 3, rng)]
    parts, options = [part(x) for x in draws], Options(weights=weights, is_corrected=False)
    diagonal = weights == "diagonal"
    theirs = np.asarray(consensus(draws, diagonal=diagonal))
    np.testing.assert_allclose(COMBINERS["average"](parts, rng, options).draws, theirs, atol=2e-4)
    mean, cov = (np.asarray(each) for each in parametric(draws, diagonal=diagonal))
    found = COMBINERS["gaussian"](parts, rng, options)
    np.testing.assert_allclose(found.mean, mean, atol=1e-4)
    np.testing.assert_allclose(np.diag(found.cov) if diagonal else found.cov, cov, atol=1e-4)
