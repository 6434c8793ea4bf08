"""Weighted averages and products of Gaussians, on subposteriors whose product is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from streaminfer.combining.methods import average
from streaminfer.combining.part import Gaussian, Options, Refused
from streaminfer.combining.table import COMBINERS
from tests.combining.gaussians import exact, heterogeneous, no_bias, numbers, part, product

GAUSSIAN = ["average", "gaussian", "normal"]


def inputs(seed: int = 0, j: int = 5, d: int = 3, n: int = 40) -> tuple[list[Gaussian], list]:
    rng = np.random.default_rng(seed)
    known = heterogeneous(j, d, rng)
    return known, [part(exact(each, n, rng)) for each in known]


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("n", [40, 9000])
def test_full_weights_are_exact_for_gaussians(name: str, n: int) -> None:
    known, parts = inputs(n=n)
    found = COMBINERS[name](parts, np.random.default_rng(1), Options(is_corrected=False))
    right = product(known)
    np.testing.assert_allclose(found.mean, right.mean, atol=1e-10)
    np.testing.assert_allclose(found.cov, right.cov, atol=1e-10)
    assert found.draws.shape == (n, 3)


def test_the_correction_cancels_if_all_have_as_many_draws() -> None:
    known, parts = inputs()
    np.testing.assert_allclose(
        COMBINERS["average"](parts, np.random.default_rng(1), Options()).mean, product(known).mean, atol=1e-10
    )


def test_draws_of_an_average_average_the_draws() -> None:
    known, parts = inputs()
    found = COMBINERS["average"](parts, np.random.default_rng(1), Options())
    sigma = product(known).cov
    by_hand = sum(p.values @ (sigma @ np.linalg.inv(g.cov)).T for p, g in zip(parts, known, strict=True))
    np.testing.assert_allclose(found.draws, by_hand, atol=1e-10)
    np.testing.assert_allclose(found.draws.mean(axis=0), found.mean, atol=1e-10)


def test_diagonal_and_equal_weights_equal_their_formulas() -> None:
    known, parts = inputs()
    means, covs = np.array([g.mean for g in known]), np.array([g.cov for g in known])
    variances = np.array([np.diag(cov) for cov in covs])
    for kind, weights in (("diagonal", 1 / variances), ("equal", np.ones((5, 3)))):
        w = weights / weights.sum(axis=0)
        found = COMBINERS["average"](parts, np.random.default_rng(1), Options(weights=kind))
        np.testing.assert_allclose(found.mean, (w * means).sum(axis=0), atol=1e-10)
        np.testing.assert_allclose(found.cov, np.einsum("ja,jab,jb->ab", w, covs, w), atol=1e-10)
        # both are wider than the posterior
        assert np.linalg.eigvalsh(found.cov - product(known).cov).min() > 1e-3


def test_mutants_miss_the_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prior counted twice in the weights, or a full prior in each subposterior: neither may pass for right."""
    rng = np.random.default_rng(3)
    j, d, prior = 2, 1, np.eye(1)
    likelihoods = [Gaussian(np.array([2.0]), 0.2 * np.eye(1)), Gaussian(np.array([-3.0]), 5.0 * np.eye(1))]
    tempered = [product([each, Gaussian(np.zeros(d), j * prior)]) for each in likelihoods]
    whole = [product([each, Gaussian(np.zeros(d), prior)]) for each in likelihoods]
    right = product([*likelihoods, Gaussian(np.zeros(d), prior)])
    sds = np.sqrt(np.diag(right.cov))

    def error(known: list[Gaussian]) -> float:
        parts = [part(exact(each, 50, rng)) for each in known]
        found = COMBINERS["average"](parts, rng, Options(is_corrected=False))
        return float(np.abs((found.mean - right.mean) / sds).max())

    assert error(tempered) < 1e-9
    assert error(whole) > 0.5
    # weights as Angelino et al. print them: the prior's precision once more, though subposteriors have it already
    plain = average.precisions_of
    monkeypatch.setattr(average, "precisions_of", lambda *given: plain(*given) + np.linalg.inv(prior) / j)
    assert error(tempered) > 0.3


def test_the_jacobian_counts_once() -> None:
    """The variance of a Gaussian, N = 10,000, J = 100, on the log scale; a flat prior of log v, tempered with it.

    The mutant tempers the prior of v itself, 1/v, and adds the Jacobian v of each part: it counts J times.
    """
    rng = np.random.default_rng(4)
    n, j, draws = 10_000, 100, 2000
    squares = stats.chi2.ppf((np.arange(j) + 0.5) / j, n / j)

    def parts(jacobian: float) -> list:
        """v of a part is inverse gamma with shape n_j / 2 - jacobian: prior v^-(1/J), Jacobian v counted so often."""
        shape = n / j / 2 - jacobian
        return [part(np.log(s / 2 / rng.gamma(shape, size=(draws, 1)))) for s in squares]

    spread = np.sqrt(2 / n)
    right = np.log(squares.sum() / n)
    # 12 runs: 0.01 and 1.44, with a deviation of 0.036
    for jacobian, low, high in ((0.0, 0.0, 0.25), (1 - 1 / j, 1.2, 1.7)):
        found = COMBINERS["average"](parts(jacobian), rng, Options())
        assert low <= abs(found.mean[0] - right) / spread <= high


def test_missing_subposteriors_are_their_prior_share() -> None:
    known, parts = inputs()
    share = Gaussian(np.array([0.3, -1.0, 2.0]), 7 * np.eye(3))
    for name in GAUSSIAN:
        found = COMBINERS[name](
            parts[:4], np.random.default_rng(1), Options(is_corrected=False, missing=[share], n=1000)
        )
        right = product([*known[:4], share])
        np.testing.assert_allclose(found.mean, right.mean, atol=1e-10)
        np.testing.assert_allclose(found.cov, right.cov, atol=1e-10)
        errors = (found.draws.mean(axis=0) - right.mean) / np.sqrt(np.diag(right.cov) / 1000)
        assert np.abs(errors).max() < 6
    with pytest.raises(Refused, match="missing"):
        COMBINERS["resampling"](parts, np.random.default_rng(1), Options(missing=[share]))


def test_few_draws_count_less() -> None:
    """T - d - 2 over T - 1, of effective draws: a part of 10 has 5/9 of its precision, one of 1000 nearly all."""
    rng = np.random.default_rng(5)
    g = Gaussian(np.zeros(3), np.eye(3))
    parts = [part(exact(g._replace(mean=np.ones(3)), 1000, rng), effective=10.0), part(exact(g, 1000, rng))]
    found = COMBINERS["gaussian"](parts, rng, Options())
    small, large = 5 / 9, 995 / 999
    np.testing.assert_allclose(found.mean, small / (small + large), rtol=1e-10)
    np.testing.assert_allclose(found.cov, np.eye(3) / (small + large), atol=1e-10)


def test_weights_of_draws_count() -> None:
    """Draws of weight 0 are not there, and a draw of weight 2 is there twice."""
    rng = np.random.default_rng(6)
    values = rng.standard_normal((500, 2))
    weights = rng.integers(0, 3, 500).astype(float)
    for name in ("average", "gaussian", "resampling"):
        one = COMBINERS[name]([part(values, weights)] * 2, np.random.default_rng(1), Options(n=400))
        plain = part(np.repeat(values, weights.astype(int), axis=0), effective=500)
        two = COMBINERS[name]([plain] * 2, np.random.default_rng(1), Options(n=400))
        np.testing.assert_allclose(one.mean, two.mean, atol=2e-2 if name == "resampling" else 1e-10)
        np.testing.assert_allclose(one.cov, two.cov, rtol=2e-2, atol=1e-3)
        assert one.draws.shape == (400, 2)


def test_importance_resampling_of_gaussians() -> None:
    """Gaussian subposteriors of exact moments: what weighs the draws is exact."""
    known = [Gaussian(np.full(2, m), s * np.eye(2)) for m, s in ((0.0, 1.0), (0.5, 2.0), (-0.3, 0.7))]
    right, runs = product(known), []
    for run in range(20):
        rng = np.random.default_rng((7, run))
        parts = [part(exact(each, 4000, rng)) for each in known]
        found = COMBINERS["resampling"](parts, rng, Options(n=1000, is_corrected=False))
        runs.append(numbers(found.mean, found.cov, found.draws))
    no_bias(np.array(runs), np.tile(numbers(right.mean, right.cov), 2))


@pytest.mark.parametrize("name", list(COMBINERS))
def test_bad_draws_are_refused_with_the_reason(name: str) -> None:
    rng = np.random.default_rng(8)
    good = part(rng.standard_normal((50, 3)))
    nan, flat, line = (good.values.copy() for _ in range(3))
    nan[7, 1], flat[:, 2] = np.nan, 3.0
    line[:, 2] = line[:, 0] + line[:, 1]
    bad = {
        "not finite": part(nan),
        "coordinate 2 does not move": part(flat),
        "fewer dimensions": part(line),
        "too few: there must be more than 5": part(good.values, effective=5.0),
        "4 draws": part(good.values[:4], effective=50.0),
        "shape": part(rng.standard_normal((50, 2))),
        "weights": part(good.values, np.full(50, -1.0)),
    }
    for reason, wrong in bad.items():
        with pytest.raises(Refused, match=f"subposterior 1: .*{reason}") as caught:
            COMBINERS[name]([good, wrong], rng, Options(gradient=np.negative))
        assert caught.value.part == 1
    with pytest.raises(Refused, match="no draws"):
        COMBINERS[name]([], rng, Options(gradient=np.negative))


def test_options_are_checked() -> None:
    for wrong in ({"weights": "none"}, {"choice": "both"}, {"bandwidth": 0.0}, {"n": 0}, {"rounds": 0}):
        with pytest.raises(Refused, match=next(iter(wrong))):
            Options(**wrong)
    with pytest.raises(Refused, match="equal"):
        COMBINERS["gaussian"]([], np.random.default_rng(1), Options(weights="equal"))
