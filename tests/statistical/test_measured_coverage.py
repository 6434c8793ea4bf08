"""What score regression says of published posteriors, beside what their intervals really hold.

Posteriors are of one pass over correlated features in small minibatches, by local steps that are good and bad, so that
intervals hold from nothing to all. The truth is by importance sampling, to 1% or better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from streaminfer.measuring import score_regression, whitening
from streaminfer.models.targets import target_of
from streaminfer.models.targets.density import Density
from tests.models.examples import build
from tests.statistical.importance import truth
from tests.statistical.streaming import streamed

CASES = [
    ("logistic_regression", "bound", 16),
    ("logistic_regression", "laplace", 4),
    ("probit_regression", "sequential", 8),
    ("logistic_regression", "ep", 8),
    ("probit_regression", "laplace", 4),
]


def events_of(kind: str, n: int, d: int, seed: int, strength: float) -> np.ndarray:
    """Events of d weights, the first of which is an intercept."""
    rng = np.random.default_rng(seed)
    features = np.sqrt(0.7) * rng.normal(size=(n, 1)) + np.sqrt(0.3) * rng.normal(size=(n, d - 1))
    odds = strength * features @ rng.normal(size=d - 1) / np.sqrt(d) - 0.5 * strength
    chances = special.expit(odds) if kind == "logistic_regression" else special.ndtr(odds)
    return np.column_stack([features, rng.random(n) < chances]).astype(np.float64)


def compared(
    kind: str, local: str, minibatch: int, n: int, d: int, seed: int, strength: float, draws: int = 1000
) -> tuple[score_regression.Regression, np.ndarray]:
    """What is said, and what is true: the coverage of each weight."""
    model: Any = build(kind, features=[f"x{i}" for i in range(1, d)], target="y", local=local)
    events = events_of(kind, n, d, seed, strength)
    moments = streamed(model, events, minibatch).moments()["weights"]
    exact = truth(model, events)
    assert exact.worth > 1000
    inside = np.abs(exact.draws - moments.mean) < score_regression.Z * moments.sd
    target = target_of(model)
    published = whitening.of_moments(moments.mean, moments.cov)
    theta = published.theta(np.random.default_rng(seed).standard_normal((draws, d)))
    score = Density(target, target.rows(events)).gradient
    return score_regression.measure(theta, score, published=published), exact.weights @ inside


def assert_right(seed: int) -> None:
    strength = 3.0 if seed % 2 else 6.0
    found, right = compared(*CASES[seed % len(CASES)], [150, 400, 1000][seed % 3], d=4, seed=seed, strength=strength)
    assert np.abs(found.coverage - right).max() < 0.04, (found.coverage, right)
    assert found.coverage_se.max() < 0.03


@pytest.mark.parametrize("seed", range(5))
def test_what_intervals_really_hold(seed: int) -> None:
    assert_right(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5, 45))
def test_what_intervals_really_hold_of_forty_data_sets(seed: int) -> None:
    assert_right(seed)


def test_a_pass_by_the_bound_is_found_to_hold_too_little() -> None:
    """5,000 events of ten correlated features in minibatches of 64: the worst interval holds a half."""
    found, right = compared("logistic_regression", "bound", 64, n=5000, d=11, seed=2, strength=3.0, draws=400)
    assert right.min() < 0.6
    assert np.abs(found.coverage - right).max() < 0.04
    assert (found.coverage + 3 * found.coverage_se).min() < 0.85


@pytest.mark.parametrize("shape", [3.0, 30.0])
def test_a_rate_by_its_log(shape: float) -> None:
    """Draws of the exact posterior of a rate, Gamma(shape), and of one that has counted every event twice."""
    rng = np.random.default_rng(int(shape))
    for doubled in (1.0, 2.0):
        theta = np.log(rng.gamma(doubled * shape, size=(4000, 1)) / doubled)
        found = score_regression.measure(theta, lambda t: shape - np.exp(t))
        mean, sd = theta.mean(), theta.std()
        ends = np.exp([mean - score_regression.Z * sd, mean + score_regression.Z * sd])
        right = np.diff(stats.gamma(shape).cdf(ends))[0]
        assert abs(found.coverage[0] - right) < 0.04
