"""Importance correction, advice, labels, and `combine` for arrays of other packages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import streaminfer
from streaminfer.combining import advice, labels
from streaminfer.combining.correction import Corrected, propose, weigh
from streaminfer.combining.pareto import threshold
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
    away = proposals.values - mean
    squares = np.einsum("ni,nj->nij", away, away) - cov
    # the standard error of a weighted mean of f is the root of sum w^2 (f - its mean)^2
    assert (np.abs(found.mean - mean) < 6 * np.sqrt(found.weights**2 @ away**2)).all()
    assert (np.abs(found.cov - cov) < 6 * np.sqrt(np.tensordot(found.weights**2, squares**2, axes=1))).all()
    assert found.is_reliable
    assert found.draws.shape == (1000, 3)


def two_modes(apart: float, scale: float, seed: int) -> tuple[Corrected, int, float]:
    """Proposals around the left of two unit normals; also how many are near the right one, and the error of the mean
    of x / sd that the weights have by theory: the root of E_q (w x)^2 / n, by quadrature."""
    rng = np.random.default_rng(seed)
    proposals = propose(around(np.zeros(1), np.full((1, 1), scale**2)), rng)
    x = proposals.values[:, 0]

    def target(at: np.ndarray) -> np.ndarray:
        return np.logaddexp(stats.norm.logpdf(at), stats.norm.logpdf(at, apart)) - np.log(2)

    grid, step = np.linspace(-30.0, apart + 30.0, 200_001, retstep=True)
    centred = (grid - apart / 2) / np.sqrt(1 + apart**2 / 4)
    logs = 2 * target(grid) - stats.t.logpdf(grid / scale, 10) + np.log(scale)
    error = np.sqrt((np.exp(logs) * centred**2).sum() * step / len(x))
    return weigh(proposals, target(x), rng), int((x > apart - 1).sum()), float(error)


def is_right(found: Corrected, apart: float, error: float) -> bool:
    return bool(abs(found.mean[0] - apart / 2) / np.sqrt(1 + apart**2 / 4) < 6 * error)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("apart", "scale"), [(2.0, 1.0), (3.0, 1.5), (6.0, 3.0), (12.0, 6.0)])
def test_two_modes_that_proposals_reach_well_are_right(apart: float, scale: float, seed: int) -> None:
    """k-hat is -0.4 or less, with a deviation of 0.1 from seed to seed."""
    found, n_there, error = two_modes(apart, scale, seed)
    assert n_there > 300
    assert found.is_reliable
    assert 6 * error < 0.2
    assert is_right(found, apart, error)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("apart", "scale"), [(6.0, 1.5), (12.0, 3.0), (12.0, 4.0)])
def test_two_modes_of_which_one_is_hardly_reached_are_seen(apart: float, scale: float, seed: int) -> None:
    """20 to 100 of 10,000 proposals are near the second mode. k-hat is 2.6 or more, with a deviation of 0.3."""
    found, n_there, _ = two_modes(apart, scale, seed)
    assert 0 < n_there < 200
    assert not found.is_reliable


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("apart", "scale"), [(3.0, 1.0), (6.0, 2.0)])
def test_two_modes_in_between_are_right_or_seen(apart: float, scale: float, seed: int) -> None:
    """k-hat is on both sides of the threshold, from seed to seed."""
    found, _, error = two_modes(apart, scale, seed)
    assert not found.is_reliable or is_right(found, apart, error)


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


def test_advice_knows_the_prior_shares_of_missing_subposteriors() -> None:
    """Full weights with an informative share are what they shall be; what is told of other weights has it in it too."""
    rng = np.random.default_rng(8)
    known = [Gaussian(np.full(2, 0.1 * i), (1.0 + i) * np.eye(2)) for i in range(3)]
    parts = [part(exact(each, 500, rng)) for each in known]
    share = Gaussian(np.full(2, 1.5), 0.25 * np.eye(2))
    for name in ("average", "gaussian"):
        full = COMBINERS[name](parts, rng, Options(missing=[share]))
        assert (advice.apart(full), advice.wider(full)) == pytest.approx((0, 1), abs=0.01)
        assert advice.warnings(name, full) == []
        unaware = replace(full, missing=())
        assert (advice.apart(unaware), advice.wider(unaware)) > (1.0, 0.0)
        assert advice.wider(unaware) < 0.7
    equal = COMBINERS["average"](parts, rng, Options(missing=[share], weights="equal", is_corrected=False))
    right, mean = product([*known, share]), np.mean([*(each.mean for each in known), share.mean], axis=0)
    away = np.abs((mean - right.mean) / np.sqrt(np.diag(right.cov))).max()
    assert advice.apart(equal) == pytest.approx(away, rel=0.02)
    # a share that is far off moves the posterior away from all parts
    far = COMBINERS["average"](parts, rng, Options(missing=[share._replace(mean=np.full(2, 30.0))]))
    assert "subposteriors disagree" in advice.warnings("average", far)[0]
    np.testing.assert_allclose(
        advice.agreement(far.parts, [Gaussian(np.zeros(2), 1e9 * np.eye(2))]), advice.agreement(far.parts), rtol=1e-6
    )


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


def two_components(rng: np.random.Generator, apart: float, shift: float = 0.0) -> dict[str, np.ndarray]:
    """Draws of a subposterior whose means are off by as much as its draws are spread: a tenth of the components."""
    means = np.array([[0.0, 0.0], [apart, 0.0]]) + 0.1 * rng.standard_normal((2, 2)) + shift
    return mixture(rng, means, 0.1, [0, 1])


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_the_share_of_ambiguous_matches_is_calibrated(shift: float) -> None:
    """Also if the components move together, from subposterior to subposterior."""
    n = 400

    def matches(apart: float) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for seed in range(n):
            rng = np.random.default_rng(seed)
            found.append(labels.aligned([two_components(rng, apart), two_components(rng, apart, shift)]))
        return np.array([each.ambiguous for each in found]), np.array([each.orders[1, 0] != 0 for each in found])

    overlap, _ = matches(0.0)
    # the log odds are Laplace distributed: above log 99 or below -log 99 in 1 of 99 cases
    assert overlap.mean() > 1 - 1 / 99 - 6 * np.sqrt(1 / 99 / n)
    for apart in (0.1, 0.2, 0.4):
        doubtful, wrong = matches(apart)
        assert (wrong & (doubtful == 0)).mean() < 1 / 99 + 6 * np.sqrt(1 / 99 / n)
    # 16 deviations: log odds of 128 with a deviation of 16
    clear, wrong = matches(1.6)
    assert not clear.any()
    assert not wrong.any()


def test_components_in_the_same_place_are_ambiguous() -> None:
    rng = np.random.default_rng(7)
    means = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [5.0, 5.0]])
    close = np.array([[0.0, 0.0], [0.01, 0.0], [0.0, 5.0], [5.0, 5.0]])
    doubtful = [
        mixture(
            np.random.default_rng(i), close + 0.3 * np.random.default_rng(i).standard_normal((4, 2)), 0.5, [0, 1, 2, 3]
        )
        for i in range(2)
    ]
    assert labels.aligned([*doubtful, mixture(rng, means, 0.1, [0, 1, 2, 3])]).ambiguous > 0
