"""Score regression against exact Gaussian targets, logistic posteriors by quadrature, and simulated standard errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from streaminfer.measuring import score_regression, whitening
from streaminfer.measuring.judging.unknowable import Unknowable
from streaminfer.measuring.score_regression import Regression, Z, coverage_of
from streaminfer.measuring.whitening import Whitening


def gaussian(d: int, seed: int) -> tuple[np.ndarray, np.ndarray, Whitening]:
    """A true mean and covariance, and other published ones."""
    rng = np.random.default_rng(seed)
    true, wrong = (rng.standard_normal((d, d)) for _ in range(2))
    published = whitening.of_moments(rng.standard_normal(d), wrong @ wrong.T + 0.1 * np.eye(d))
    return rng.standard_normal(d), true @ true.T + 0.1 * np.eye(d), published


def is_exact(found: Regression, mean: np.ndarray, cov: np.ndarray, published: Whitening) -> bool:
    shift, ratio = (mean - published.mean) / published.sd, np.sqrt(np.diag(cov)) / published.sd
    held = stats.norm.cdf((Z - shift) / ratio) - stats.norm.cdf((-Z - shift) / ratio)
    right = [(found.shift, shift), (found.ratio, ratio), (found.coverage, held), (found.mean, mean), (found.cov, cov)]
    return all(np.allclose(a, b, rtol=1e-8, atol=1e-8) for a, b in right)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_a_gaussian_posterior_is_found_exactly(d: int, weighted: bool) -> None:
    """Two draws more than coordinates are enough, whatever was published. Nothing is left to be unsure of."""
    mean, cov, published = gaussian(d, d)
    rng = np.random.default_rng(10 + d)
    theta = published.theta(rng.standard_normal((d + 2, d)))
    weights = rng.random(d + 2) + 0.5 if weighted else None
    precision = np.linalg.inv(cov)
    found = score_regression.measure(theta, lambda t: -(t - mean) @ precision, weights=weights, published=published)
    assert is_exact(found, mean, cov, published)
    assert max(found.shift_se.max(), found.ratio_se.max(), found.coverage_se.max()) < 1e-8


def test_moments_without_a_regression_are_not_exact() -> None:
    """The mutant: the mean score and the mean product of score and u for intercept and slope."""
    mean, cov, published = gaussian(2, 2)
    u = np.random.default_rng(12).standard_normal((50, 2))
    scores = published.scores(-(published.theta(u) - mean) @ np.linalg.inv(cov))
    slope = -scores.T @ u / len(u)
    inverse = np.linalg.inv(0.5 * (slope + slope.T))
    found = published.mean + published.root @ inverse @ scores.mean(axis=0)
    assert np.abs(found - mean).max() > 0.01


def test_the_ratio_is_true_over_published() -> None:
    assert coverage_of(np.array(0.5), np.array(1.5)) == pytest.approx(0.784, abs=5e-4)
    assert coverage_of(np.array(0.5), np.array(1 / 1.5)) == pytest.approx(0.986, abs=5e-4)  # the mutant, inverted
    true = 1.5
    theta = np.random.default_rng(1).standard_normal((50, 1))
    published = Whitening(np.zeros(1), np.eye(1))
    found = score_regression.measure(theta, lambda t: -(t - 0.5) / true**2, published=published)
    assert found.coverage[0] == pytest.approx(0.784, abs=5e-4)


class Logistic:
    """Weights of two features, N(0, 1) before the data; the posterior is known on a grid."""

    def __init__(self, seed: int, n: int) -> None:
        rng = np.random.default_rng(seed)
        self.x = np.stack([np.ones(n), rng.standard_normal(n)], axis=1)
        self.y = (rng.random(n) < 1 / (1 + np.exp(-self.x @ (1.5 * rng.standard_normal(2))))).astype(float)
        mode = np.zeros(2)
        for _ in range(50):
            p = 1 / (1 + np.exp(-self.x @ mode))
            curvature = (self.x * (p * (1 - p))[:, None]).T @ self.x + np.eye(2)
            mode = mode + np.linalg.solve(curvature, self.score(mode[None])[0])
        self.mode, self.cov = mode, np.linalg.inv(curvature)
        sd = np.sqrt(np.diag(self.cov))
        axes = [np.linspace(m - 7 * s, m + 9 * s, 160) for m, s in zip(mode, sd, strict=True)]
        self.cells = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
        logs = np.concatenate([self.log_density(part) for part in np.array_split(self.cells, 20)])
        self.mass = np.exp(logs - logs.max())
        self.mass /= self.mass.sum()

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        margins = theta @ self.x.T
        return (margins * self.y - np.logaddexp(0, margins)).sum(axis=1) - 0.5 * (theta**2).sum(axis=1)

    def score(self, theta: np.ndarray) -> np.ndarray:
        return (self.y - 1 / (1 + np.exp(-theta @ self.x.T))) @ self.x - theta

    def published(self, shift: float, width: float) -> Whitening:
        """A Gaussian around the mode, that many deviations off and that many times as wide."""
        return whitening.of_moments(self.mode + shift * np.sqrt(np.diag(self.cov)), width**2 * self.cov)

    def held(self, published: Whitening) -> np.ndarray:
        """What the intervals of a published posterior really hold."""
        inside = np.abs(self.cells - published.mean) <= Z * published.sd
        return np.asarray(self.mass @ inside)


PUBLISHED = [
    (20, 0.0, 1.0),
    (40, 0.7, 0.6),
    (80, 0.0, 1.5),
    (200, 0.7, 1.0),
    (20, 0.0, 0.6),
    (40, -0.7, 1.5),
    (80, -1.0, 0.7),
    (25, 1.0, 1.0),
]
"""Events, shift and width."""


@pytest.mark.parametrize("seed", range(8))
def test_the_coverage_of_logistic_posteriors(seed: int) -> None:
    n, shift, width = PUBLISHED[seed]
    true = Logistic(seed, n)
    published = true.published(shift, width)
    theta = published.theta(np.random.default_rng(seed).standard_normal((2000, 2)))
    found = score_regression.measure(theta, true.score, published=published)
    assert np.abs(found.coverage - true.held(published)).max() < 0.053


def test_two_regressions_see_a_skewed_posterior_better_than_one() -> None:
    """Around a published posterior that is far off the slope is another one."""
    true = Logistic(4, 20)
    published = true.published(1.5, 0.5)
    u = np.random.default_rng(1).standard_normal((4000, 2))
    twice = score_regression.measure(published.theta(u), true.score, published=published)
    rows = np.column_stack([np.ones(len(u)), u])
    once = np.linalg.lstsq(rows, published.scores(true.score(published.theta(u))), rcond=None)[0]
    inverse = np.linalg.inv(-0.5 * (once[1:] + once[1:].T))
    to = published.root
    shift, ratio = to @ inverse @ once[0] / published.sd, np.sqrt(np.diag(to @ inverse @ to.T)) / published.sd
    held = true.held(published)
    assert np.abs(twice.coverage - held).max() < 0.5 * np.abs(coverage_of(shift, ratio) - held).max()


WALLS = [(-1.0, 0.3), (0.0, 1.0), (0.0, 0.1), (2.0, 0.3), (0.8, 0.6), (-3.0, 1.0)]
"""Means and deviations that are published of a posterior beside a wall."""


@pytest.mark.parametrize("steepness", [8.0, 50.0])
def test_a_posterior_beside_a_wall_is_told_right_or_not_at_all(steepness: float) -> None:
    """N(0, 1) before three ones of a feature that is rarely so large: nothing is left below 0.

    The mutant makes whole steps, goes to and fro, and says 62% without any doubt where it is 95%.
    """
    grid = np.linspace(-6, 6, 100_001)
    logs = -0.5 * grid**2 - 3 * np.logaddexp(0, -steepness * grid)
    mass = np.exp(logs - logs.max())
    told = 0
    for mean, sd in WALLS:
        published = Whitening(np.array([mean]), np.array([[sd]]))
        theta = published.theta(np.random.default_rng(1).standard_normal((1000, 1)))
        held = mass[np.abs(grid - mean) < Z * sd].sum() / mass.sum()
        try:
            found = score_regression.measure(
                theta, lambda t: -t + 3 * steepness / (1 + np.exp(np.minimum(steepness * t, 700))), published=published
            )
        except Unknowable:
            continue
        told += 1
        assert abs(found.coverage[0] - held) < 0.06, (mean, sd)
    assert told >= (6 if steepness < 10 else 2)


def spread(measure: Callable[[np.random.Generator], Regression], n: int, seed: int) -> np.ndarray:
    """Deviations over repetitions of shift, ratio and coverage, over the root mean square of their standard errors."""
    rng = np.random.default_rng(seed)
    runs = [measure(rng) for _ in range(n)]
    pairs = [("shift", "shift_se"), ("ratio", "ratio_se"), ("coverage", "coverage_se")]
    values = np.array([[getattr(run, a) for a, _ in pairs] for run in runs])
    errors = np.array([[getattr(run, b) for _, b in pairs] for run in runs])
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt((errors**2).mean(axis=0)))


@pytest.mark.parametrize("batch", [1, 20])
def test_standard_errors_are_those_of_repetitions(batch: int) -> None:
    """They leave out what the first regression moves, so they promise no more than a factor of 1.5.

    200 repetitions know a deviation to 5%. Chains count by batches: of an AR(1) with 0.8 a draw is worth 1/9.
    """
    true, rho = Logistic(0, 30), 0.0 if batch == 1 else 0.8

    def measure(rng: np.random.Generator) -> Regression:
        noise = rng.standard_normal((600, 2))
        u = noise.copy()
        for i in range(1, len(u) if rho else 0):
            u[i] = rho * u[i - 1] + np.sqrt(1 - rho**2) * noise[i]
        published = true.published(0.4, 0.8)
        return score_regression.measure(published.theta(u), true.score, published=published, batch=batch)

    found = spread(measure, 200, 5)
    assert ((found > 0.6) & (found < 1.5)).all()


def test_the_error_of_scores_by_parts_of_the_data_counts() -> None:
    """Scores by 8 parts of 2,000 of 20,000 events: all of the error is the data's, which draws do not show.

    A plain subsample shifts the mean by sqrt(N/m - 1) = 1/2 of a posterior deviation, even at 80% of the events.
    """
    rng = np.random.default_rng(3)
    x = rng.standard_normal(20_000)
    y = 0.3 * x + rng.standard_normal(20_000)

    def measure(rng: np.random.Generator) -> Regression:
        mine = rng.choice(20_000, 16_000, replace=False).reshape(8, 2000)
        slopes, sums = 10 * (x[mine] ** 2).sum(axis=1), 10 * (x[mine] * y[mine]).sum(axis=1)
        published = Whitening(np.array([0.3 + 20_000**-0.5]), np.array([[20_000**-0.5]]))
        theta = published.theta(rng.standard_normal((100, 1)))

        def score(t: np.ndarray) -> np.ndarray:
            return sums[:, None, None] - slopes[:, None, None] * t

        return score_regression.measure(theta, score, published=published, correction=0.2)

    found = spread(measure, 300, 6)
    assert ((found > 0.7) & (found < 1.4)).all()
    one = measure(np.random.default_rng(1))
    assert 0.25 < one.shift_se[0] < 1.0


def test_functions_of_the_coordinates() -> None:
    mean, cov, published = gaussian(3, 5)
    theta = published.theta(np.random.default_rng(3).standard_normal((20, 3)))
    rows = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, -1.0], [0.0, 0.0, 0.0]])
    precision = np.linalg.inv(cov)
    found = score_regression.measure(theta, lambda t: -(t - mean) @ precision, published=published, functions=rows)
    was = rows @ published.root @ published.root.T @ rows.T
    with np.errstate(invalid="ignore"):
        sd = np.sqrt(np.diag(was))
        np.testing.assert_allclose(found.shift[:2], (rows @ (mean - published.mean) / sd)[:2], rtol=1e-8)
        np.testing.assert_allclose(found.ratio[:2], (np.sqrt(np.diag(rows @ cov @ rows.T)) / sd)[:2], rtol=1e-8)
    assert np.isnan(found.coverage[2])


def test_exact_draws_of_a_skewed_posterior_are_found_right() -> None:
    """Draws of log Gamma(3): the identity of Stein holds for them, whatever their shape."""
    rng = np.random.default_rng(8)
    theta = np.log(rng.gamma(3.0, size=(20_000, 1)))
    found = score_regression.measure(theta, lambda t: 3.0 - np.exp(t))
    assert abs(found.shift[0]) < 6 * max(found.shift_se[0], 20_000**-0.5)
    assert abs(found.ratio[0] - 1) < 6 * max(found.ratio_se[0], 20_000**-0.5)


def test_scores_that_are_there_are_not_asked_for_again() -> None:
    asked = []
    theta = np.random.default_rng(8).standard_normal((30, 2))

    def score(t: np.ndarray) -> np.ndarray:
        asked.append(t)
        return -t

    found = score_regression.measure(theta, score, scores=-theta)
    assert len(asked) == 1
    np.testing.assert_allclose(found.cov, np.eye(2), atol=1e-10)


@pytest.mark.parametrize(("theta", "score", "sentence"), [
    (np.zeros((50, 2)), lambda t: -t, "does not move"),
    (np.ones((3, 2)), lambda t: -t, "There are 3 draws, and 4 are needed"),
    (np.full((50, 2), np.nan), lambda t: -t, "not finite"),
    (np.random.default_rng(1).standard_normal((50, 2)), lambda t: t, "not of one peak"),
    (np.random.default_rng(1).standard_normal((50, 2)), lambda t: np.full(t.shape, np.inf), "Scores are not finite"),
    (np.random.default_rng(1).standard_normal((50, 1)) * [1, 2], lambda t: -t, "singular"),
    (np.random.default_rng(1).standard_normal((300, 201)), lambda t: -t, "201 coordinates"),
])  # fmt: skip
def test_what_cannot_be_told_says_why(theta: np.ndarray, score: Callable[..., np.ndarray], sentence: str) -> None:
    with pytest.raises(Unknowable, match=sentence):
        score_regression.measure(theta, score)
