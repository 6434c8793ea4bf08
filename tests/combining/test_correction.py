"""Importance correction, advice, labels, and `combine` for arrays of other packages."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import streaminfer
from streaminfer.combining import advice, labels
from streaminfer.combining.correction import propose, threshold, weigh
from streaminfer.combining.part import Combined, Gaussian, Moments, Options, Refused
from streaminfer.combining.table import COMBINERS
from tests.combining.gaussians import exact, part, product


def around(mean: np.ndarray, cov: np.ndarray) -> Combined:
    return Combined(np.zeros((1, len(mean))), mean, cov, (Moments(mean, cov, 1000, 1000.0),))


@pytest.mark.parametrize("d", [1, 3])
def test_proposals_are_a_multivariate_t(d: int) -> None:
    rng = np.random.default_rng(d)
    mean, cov = np.arange(d) + 1.0, np.diag([4.0, 0.01, 25.0][:d]) + 0.01
    found = propose(around(mean, cov), rng, 2000)
    right = stats.multivariate_t(mean, cov, df=10).logpdf(found.values)
    np.testing.assert_allclose(found.log_density, right, rtol=1e-10)


def test_the_evidence_of_conjugate_regression() -> None:
    """y = X w + noise, w ~ N(0, I): N(y | 0, X X' + I)."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 3))
    y = x @ np.array([1.0, -0.5, 0.2]) + rng.standard_normal(40)
    cov = np.linalg.inv(x.T @ x + np.eye(3))
    mean = cov @ x.T @ y

    def log_density(w: np.ndarray) -> np.ndarray:
        fit = stats.norm.logpdf(y - w @ x.T).sum(axis=1)
        return fit + stats.norm.logpdf(w).sum(axis=1)

    wrong = mean + 0.4 * np.sqrt(np.diag(cov))
    proposals = propose(around(wrong, 1.2 * cov), rng)
    found = weigh(proposals, log_density(proposals.values), rng)
    right = stats.multivariate_normal.logpdf(y, np.zeros(40), x @ x.T + np.eye(40))
    assert abs(found.log_evidence - right) < 5.5 * found.log_evidence_error < 0.2
    sds = np.sqrt(np.diag(cov))
    assert np.abs((found.mean - mean) / sds).max() < 6 / np.sqrt(found.effective)
    np.testing.assert_allclose(
        found.cov / np.outer(sds, sds), cov / np.outer(sds, sds), atol=12 / np.sqrt(found.effective)
    )
    assert found.is_reliable
    assert found.draws.shape == (1000, 3)


@pytest.mark.parametrize("apart", [2.0, 6.0, 12.0])
def test_two_modes_that_are_reached_are_right_or_seen(apart: float) -> None:
    """Proposals around the left mode only; a k-hat below the threshold goes with the right mean and deviation."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        proposals = propose(around(np.zeros(1), np.ones((1, 1))), rng)
        x = proposals.values[:, 0]
        logs = np.logaddexp(stats.norm.logpdf(x), stats.norm.logpdf(x, apart))
        if (x > apart).sum() < 5:
            continue  # the second mode was not reached
        found = weigh(proposals, logs, rng)
        sd = np.sqrt(1 + apart**2 / 4)
        if found.is_reliable:
            assert abs(found.mean[0] - apart / 2) / sd < 0.2
            assert np.sqrt(found.cov[0, 0]) == pytest.approx(sd, rel=0.2)


def test_a_second_mode_raises_k_hat() -> None:
    proposals = propose(around(np.zeros(1), np.ones((1, 1))), np.random.default_rng(0))
    x = proposals.values[:, 0]
    found = weigh(proposals, np.logaddexp(stats.norm.logpdf(x), stats.norm.logpdf(x, 6)), np.random.default_rng(1))
    assert found.k_hat > found.threshold


def test_k_hat_has_the_right_sign() -> None:
    """p = N(0, variance 2), q = N(0, 1): around 0.5 in the mean; with the wrong sign it would be -1.6."""
    found = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(1000)
        proposals = propose(around(np.zeros(1), np.ones((1, 1))), rng, 1000)
        plain = type(proposals)(x[:, None], stats.norm.logpdf(x))
        found.append(weigh(plain, stats.norm.logpdf(x, scale=np.sqrt(2)), rng).k_hat)
    assert 0.35 < np.mean(found) < 0.6


def test_weights_that_say_nothing_or_too_much() -> None:
    rng = np.random.default_rng(3)
    proposals = propose(around(np.zeros(2), np.eye(2)), rng, 500)
    same = weigh(proposals, proposals.log_density + 7.0, rng)
    assert (same.k_hat, same.effective) == (0.0, pytest.approx(500))
    assert same.log_evidence == pytest.approx(7.0)
    half = np.where(proposals.values[:, 0] > 0, proposals.log_density, -np.inf)
    found = weigh(proposals, half, rng)
    assert (found.draws[:, 0] > 0).all()
    assert found.log_evidence == pytest.approx(np.log(0.5), abs=0.3)
    for wrong in (np.full(500, np.nan), np.full(500, np.inf), np.full(500, -np.inf), np.zeros(3)):
        with pytest.raises(Refused, match="log densities"):
            weigh(proposals, wrong, rng)
    assert (threshold(10_000), threshold(100)) == (0.7, 0.5)


def test_combine_takes_arrays_and_corrects_them() -> None:
    """Subposteriors that are wrong by half a deviation each; the density is that of a Gaussian."""
    rng = np.random.default_rng(4)
    known = [Gaussian(np.full(3, m), v * np.eye(3)) for m, v in ((0.0, 1.0), (1.0, 2.0), (0.5, 3.0))]
    right = product(known)
    shifted = [exact(g._replace(mean=g.mean + 0.5), 2000, rng) for g in known]
    off = streaminfer.combine(shifted)
    assert off.exactness == "approximate"
    assert np.abs(off.mean - right.mean).min() > 0.4
    log_density = stats.multivariate_normal(right.mean, right.cov).logpdf
    found = streaminfer.combine(shifted, by="gaussian", log_density=log_density, n=200, seed=1)
    assert found.exactness == "sampled"
    assert found.corrected is not None
    assert np.abs((found.mean - right.mean) / found.sd).max() < 6 / np.sqrt(found.corrected.effective)
    assert abs(found.corrected.log_evidence) < 6 * found.corrected.log_evidence_error
    assert found.draws.shape == (200, 3)
    with pytest.raises(Refused, match="no combiner 'mean'"):
        streaminfer.combine(shifted, by="mean")
    with pytest.raises(Refused, match="shape"):
        streaminfer.combine([np.zeros(3)])


def test_what_speaks_against_a_posterior() -> None:
    rng = np.random.default_rng(5)
    agree = [part(exact(Gaussian(np.zeros(4), (1 + i) * np.eye(4)), 500, rng)) for i in range(3)]
    assert advice.warnings("average", COMBINERS["average"](agree, rng, Options())) == []
    apart = [*agree, part(exact(Gaussian(np.full(4, 8.0), 20 * np.eye(4)), 500, rng))]
    kde = COMBINERS["kde"](apart, rng, Options(n=100, components=200))
    equal = COMBINERS["average"](apart, rng, Options(weights="equal"))
    assert [text.split(":")[0] for text in advice.warnings("kde", kde)][-1].startswith("kernel density")
    far = [part(exact(Gaussian(np.full(4, m), np.eye(4)), 500, rng)) for m in (0.0, 0.0, 9.0)]
    assert "subposteriors disagree" in advice.warnings("average", COMBINERS["average"](far, rng, Options()))[0]
    assert any("full weights" in text for text in advice.warnings("average", equal))
    assert any("match" in text for text in advice.warnings("average", equal, ambiguous=0.25))


def test_agreement_is_calibrated() -> None:
    """Means drawn as data would: chances are uniform."""
    rng = np.random.default_rng(6)
    found = []
    for _ in range(2000):
        covs = [np.diag([1.0, 2.0]), np.diag([3.0, 0.5]), np.eye(2)]
        moments = [Moments(rng.multivariate_normal(np.zeros(2), c), c, 10**9, 1e9) for c in covs]
        found.append(advice.agreement(moments)[1])
    assert stats.kstest(found, "uniform").pvalue > 1e-6


def mixture(rng: np.random.Generator, means: np.ndarray, noise: float, order: list[int]) -> dict[str, np.ndarray]:
    k, d = means.shape
    drawn = means + noise * rng.standard_normal((100, k, d))
    made = {
        "weights": np.tile(np.arange(1, k + 1) / 10, (100, 1)),
        "means": drawn,
        "covs": np.tile(np.eye(d), (100, k, 1, 1)),
    }
    return {name: values[:, order] for name, values in made.items()}


def test_components_are_matched_to_a_reference_part() -> None:
    rng = np.random.default_rng(7)
    means = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [5.0, 5.0]])
    parts = [mixture(rng, means, 0.1, order) for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0])]
    found = labels.aligned(parts)
    for each in found.parts:
        np.testing.assert_array_equal(each["weights"][0], [0.1, 0.2, 0.3, 0.4])
        np.testing.assert_allclose(each["means"].mean(axis=0), means, atol=0.1)
    assert found.ambiguous == 0.0
    close = np.array([[0.0, 0.0], [0.01, 0.0], [0.0, 5.0], [5.0, 5.0]])
    doubtful = [
        mixture(
            np.random.default_rng(i), close + 0.3 * np.random.default_rng(i).standard_normal((4, 2)), 0.5, [0, 1, 2, 3]
        )
        for i in range(2)
    ]
    assert labels.aligned([*doubtful, mixture(rng, means, 0.1, [0, 1, 2, 3])]).ambiguous > 0
