"""Scores against those of all events; a plain subset, the classical mistake, fails the same check."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from streaminfer.measuring.densities import density_of
from streaminfer.measuring.scores import AllEvents, Anchored, Anchoring, Score, Segment
from streaminfer.models.targets import mode, target_of
from streaminfer.models.targets.density import Density
from tests.models.examples import EXAMPLES, build, model_of
from tests.models.targets.cases import ALL, case

N, HELD, D = 100_000, 1000, 10
KAPPA = 0.2343
"""E (1 + 2 chi^2_10)^(-1/2)."""


class Large(NamedTuple):
    """A logistic posterior of many events: its target, rows, mode, and draws whitened (k, d) and in theta (k, d)."""

    target: Any
    rows: np.ndarray
    anchor: np.ndarray
    root: np.ndarray
    white: np.ndarray

    @property
    def theta(self) -> np.ndarray:
        return self.anchor + self.white @ self.root.T


@cache
def large() -> Large:
    """Draws are of the Gaussian at the mode, which the posterior is at this size."""
    rng = np.random.default_rng(1)
    model = build("logistic_regression", features=[f"x{i}" for i in range(D - 1)], target="y")
    features = rng.standard_normal((N, D - 1)) @ (np.eye(D - 1) + 0.3) + 0.2
    events = np.column_stack([features, np.zeros(N)])
    weights = np.append(-1.0, rng.normal(0, 0.4, D - 1))
    events = model.simulate(rng, {"weights": weights[None]}, events)[0]
    target = target_of(model)
    rows = target.rows(events)
    found = mode.find(Density(target, rows))
    root = np.linalg.inv(np.linalg.cholesky(found.curvature)).T
    return Large(target, rows, found.theta, root, rng.standard_normal((200, D)))


def anchored(rows: np.ndarray, held: int = HELD, seed: int = 2, weights: np.ndarray | None = None) -> Anchored:
    made = Anchoring(large().target, large().anchor, held, np.random.default_rng(seed))
    for begin in range(0, len(rows), 30_001):
        part = slice(begin, begin + 30_001)
        made.add(rows[part], None if weights is None else weights[part])
    return made.finish()


def delta_squared(gradients: np.ndarray, truth: np.ndarray) -> float:
    """The kernel Stein discrepancy by the difference of scores, in posterior deviations (U-statistic)."""
    wrong = (gradients - truth) @ large().root
    white = large().white
    kernel = (1 + ((white[:, None] - white[None]) ** 2).sum(axis=-1)) ** -0.5
    np.fill_diagonal(kernel, 0)
    return float((kernel * (wrong @ wrong.T)).sum()) / (len(white) * (len(white) - 1)) / KAPPA


@cache
def truth() -> np.ndarray:
    return AllEvents(Density(large().target, large().rows)).gradient(large().theta)


def test_an_anchored_score_is_right_and_a_plain_subset_is_not() -> None:
    for seed in range(3):
        assert abs(delta_squared(anchored(large().rows, seed=seed).gradient(large().theta), truth())) <= 0.01
    which = np.random.default_rng(3).choice(N, HELD, replace=False)
    plain = Density(large().target, large().rows[which], weights=np.full(HELD, N / HELD))
    # It is about d (N/m - 1) = 990, a chi-squared of d degrees of freedom; once in ten million it is below 20.
    assert delta_squared(plain.gradient(large().theta), truth()) > 20


def test_its_error_falls_with_the_events_that_are_held() -> None:
    """Mean squares over subsets go as 1/m; eight times as many give an eighth, within what 60 subsets tell."""

    def mean_square(held: int) -> float:
        found = [anchored(large().rows[:20_000], held, seed) for seed in range(60)]
        whole = Density(large().target, large().rows[:20_000]).gradient(large().theta[:5])
        return float(np.mean([((made.gradient(large().theta[:5]) - whole) @ large().root) ** 2 for made in found]))

    assert mean_square(200) / mean_square(1600) == pytest.approx(8 * (1 - 200 / 20_000) / (1 - 1600 / 20_000), rel=0.35)


@pytest.mark.parametrize("forgetting", [False, True])
def test_its_standard_error_is_that_of_many_subsets(forgetting: bool) -> None:
    """With weights that halve every 500 events, a subset that ignored them would hold almost none that count."""
    rows, theta = large().rows[:4000], large().theta[:4]
    weights = 0.5 ** (np.arange(len(rows))[::-1] / 500) if forgetting else None
    whole = Density(large().target, rows, weights=weights).gradient(theta)
    found = [anchored(rows, 300, seed, weights) for seed in range(300)]
    off = np.array([made.gradient(theta) - whole for made in found])
    told = np.sqrt(np.mean([made.error(theta) ** 2 for made in found[:40]], axis=0))
    spread = np.sqrt((off**2).mean(axis=0))
    # A deviation of 300 has a relative error of 0.041, and a bias must be below it.
    np.testing.assert_allclose(told, spread, rtol=0.3)
    assert (np.abs(off.mean(axis=0)) < 6 * spread / np.sqrt(len(found)) + 0.1 * spread).all()
    by_parts = [made.correction * made.parts(theta).var(axis=0, ddof=1) / 20 for made in found[:40]]
    np.testing.assert_allclose(np.sqrt(np.mean(by_parts, axis=0)), spread, rtol=0.35)
    np.testing.assert_allclose(found[0].parts(theta).mean(axis=0), found[0].gradient(theta), rtol=1e-9, atol=1e-8)


def test_scales_add_up_to_all_weights_and_all_events_are_exact() -> None:
    rows, weights = large().rows[:500], 0.5 ** (np.arange(500)[::-1] / 100)
    some = anchored(rows, 50, weights=weights)
    assert some.scales.sum() == pytest.approx(weights.sum())
    every = anchored(rows, 500, weights=weights)
    whole = Density(large().target, rows, weights=weights)
    theta = large().theta[:3]
    np.testing.assert_allclose(every.gradient(theta), whole.gradient(theta), rtol=1e-9, atol=1e-8)
    assert not every.error(theta).any()
    assert every.parts(theta).shape == (1, 3, D)
    assert every.correction == 0


def test_equal_weights_are_a_subset_without_replacement() -> None:
    some = anchored(large().rows[:1000], 100)
    np.testing.assert_allclose(some.scales, 10.0)
    assert some.correction == pytest.approx((1 - 0.1) * 100 / 99)


@pytest.mark.parametrize("example", ALL, ids=[example.name for example in ALL])
def test_every_target_has_all_three(example: Any) -> None:
    """At the anchor every subset is exact; with the prior as the older posterior, a segment is all events."""
    target, rows, theta = case(example)
    model = model_of(example)
    weights = np.random.default_rng(4).random(len(rows))
    whole = AllEvents(Density(target, rows, weights=weights))
    made = Anchoring(target, theta[0], 10, np.random.default_rng(5))
    made.add(rows[:15], weights[:15])
    made.add(rows[15:], weights[15:])
    some = made.finish()
    np.testing.assert_allclose(some.gradient(theta[:1]), whole.gradient(theta[:1]), rtol=1e-9, atol=1e-8)
    assert not some.error(theta[:1]).any()
    prior = density_of(model.posterior(model.empty()), target)
    assert prior.density is not None
    segment = Segment(prior.density, Density(target, rows, weights=weights))
    np.testing.assert_allclose(segment.gradient(theta), whole.gradient(theta), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(segment.log_density(theta), whole.log_density(theta), rtol=1e-9)
    scores: list[Score] = [whole, some, segment]
    assert [score.kind for score in scores] == ["all", "anchored", "segment"]
    assert [score.n_data for score in scores] == [len(rows)] * 3


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_a_segment_of_a_conjugate_posterior_is_all_events(example: Any) -> None:
    target, rows, theta = case(example)
    model, events = model_of(example), example.events(np.random.default_rng(1), 40)
    np.testing.assert_array_equal(target.rows(events), rows)
    older = density_of(model.posterior(model.statistics(events[:25])), target)
    assert older.density is not None
    segment = Segment(older.density, Density(target, rows[25:]))
    np.testing.assert_allclose(segment.gradient(theta), Density(target, rows).gradient(theta), rtol=1e-8, atol=1e-7)


def test_draws_have_no_density_and_topics_have_no_scores() -> None:
    class Drawn:
        family = "draws"

        def sample(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
            return {"p": rng.random(n)}

    target = case(EXAMPLES[0]).target
    found = density_of(Drawn(), target)
    assert found.density is None
    assert found.sample(np.random.default_rng(1), 4).shape == (4, 1)
    topics = target_of(build("lda", field="w", topics=2, vocabulary=["a", "b"]))
    with pytest.raises(TypeError, match="no parameters on an unconstrained scale"):
        density_of(Drawn(), topics)


def test_one_held_row_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 rows"):
        Anchoring(large().target, large().anchor, 1, np.random.default_rng(1))
