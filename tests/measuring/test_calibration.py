"""Ranks, coverage, reliability and the anytime test: right predictions pass, and planted mistakes are found."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streaminfer.measuring import calibration
from streaminfer.measuring.calibration import Evidence, coverage, pit, reliability, uniformity, watch
from tests.models.examples import EXAMPLES, Example, build, model_of

RIGHT = [example for example in EXAMPLES if example.name in {"coin", "die", "count", "exposed", "cloud", "line"}]


def _near(found: calibration.Estimate, expected: float) -> bool:
    return abs(found.value - expected) < 5.5 * found.se


@pytest.mark.parametrize("example", RIGHT, ids=[example.name for example in RIGHT])
def test_ranks_of_new_events_are_uniform_if_the_posterior_is_right(example: Example) -> None:
    model, rng = model_of(example), np.random.default_rng(1)
    posterior = model.posterior(model.statistics(example.events(rng, 20_000)))
    ranks = calibration.predicted(model, posterior.sample(rng, 100), example.events(rng, 2000), rng)
    assert ranks.shape == (2000, 2 if example.kind == "gaussian" else 1)
    found = uniformity(ranks[:, 0])
    assert _near(found.shift, 0)
    assert _near(found.width, 1)
    for level in (0.5, 0.95):
        assert _near(coverage(ranks[:, 0], level), level)


def test_ranks_without_randomness_fail_for_counts() -> None:
    """The classical mistake: F(y) itself is not uniform for 0/1 events."""
    rng = np.random.default_rng(1)
    simulated, observed = (rng.random((100, 3000)) < 0.3).astype(float), (rng.random(3000) < 0.3).astype(float)
    assert _near(uniformity(pit(simulated, observed, rng)).shift, 0)
    plain = (simulated <= observed).mean(axis=0)
    assert not _near(uniformity(plain).shift, 0)


def test_what_is_wrong_is_told_as_an_effect() -> None:
    """Events N(0.1, 1.3^2) predicted as N(0, 1): normal scores have that mean and deviation."""
    rng = np.random.default_rng(2)
    found = uniformity(pit(rng.standard_normal((4000, 3000)), rng.normal(0.1, 1.3, 3000), rng))
    assert _near(found.shift, 0.1)
    assert _near(found.width, 1.3)
    assert not _near(found.width, 1)


def test_coverage_is_that_of_intervals_that_are_too_narrow() -> None:
    rng = np.random.default_rng(3)
    ranks = pit(rng.normal(0, 0.5, (400, 4000)), rng.standard_normal(4000), rng)
    expected = math.erf(1.96 * 0.5 / math.sqrt(2))
    assert _near(coverage(ranks, 0.95), expected)
    assert not _near(coverage(ranks, 0.95), 0.95)
    assert coverage(np.full(20, 0.5), 0.95).se > 0.04


def test_reliability_of_right_and_of_overconfident_probabilities() -> None:
    rng = np.random.default_rng(4)
    odds = rng.normal(0, 1.5, 20_000)
    right, sure = 1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(-2 * odds))
    outcomes = (rng.random(20_000) < right).astype(float)
    good, bad = reliability(right, outcomes), reliability(sure, outcomes)
    assert good.curve.shape == (10, 4)
    assert good.curve[:, 3].sum() == 20_000
    assert (np.abs(good.curve[:, 1] - good.curve[:, 0]) < 5.5 * good.curve[:, 2]).all()
    assert _near(good.bias, 0)
    assert good.error.value < 5.5 * good.error.se
    truth = np.sqrt(np.mean([(r.mean() - s.mean()) ** 2 for r, s in _parts(right, sure)]))
    assert bad.error.value == pytest.approx(truth, abs=5.5 * bad.error.se)
    assert bad.error.value > 5.5 * bad.error.se
    assert not _near(reliability(right + 0.05 * right * (1 - right) * 4, outcomes).bias, 0)


def _parts(right: np.ndarray, sure: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(right[part], sure[part]) for part in np.array_split(np.argsort(sure), 10)]


def test_bets_have_the_mean_one_on_uniform_ranks() -> None:
    np.testing.assert_allclose(calibration._bets().mean(axis=1), 1.0, rtol=1e-12)


def test_false_alarms_keep_their_budget_and_misfits_are_found_soon() -> None:
    """Over 200 runs of a budget's length, at most one false alarm a run on average; a fixed-level test has many."""
    rng, budget = np.random.default_rng(5), 4000
    alarms = [watch(Evidence(), rng.random(budget), budget).n_alarms for _ in range(200)]
    assert np.mean(alarms) + 5.5 * np.std(alarms) / math.sqrt(200) < 1.0
    for wrong in (rng.normal(0.3, 1, budget), rng.normal(0, 1.5, budget), rng.normal(0, 0.6, budget)):
        ranks = np.array([0.5 * math.erfc(-z / math.sqrt(2)) for z in wrong])
        found = watch(Evidence(), ranks, budget)
        assert found.n_alarms >= 1
        first = watch(Evidence(), ranks[:1000], budget)
        assert first.alarm_at != -1


def test_a_test_of_fixed_level_alarms_on_every_stream_in_the_end() -> None:
    """The mutant: a z-test of 5% after every block of 32 right events. Half of 4,000 events raise it."""
    rng, alarmed = np.random.default_rng(6), 0
    for _ in range(100):
        sums = np.cumsum(rng.random(4000) - 0.5)[31::32]
        n = np.arange(32, 4001, 32)
        alarmed += bool((np.abs(sums) > 1.96 * np.sqrt(n / 12)).any())
    assert alarmed > 25


def test_ranks_in_pieces_are_as_all_at_once() -> None:
    ranks = np.random.default_rng(7).random(1000) ** 1.2
    whole, pieces = watch(Evidence(), ranks, 1e9), Evidence()
    for part in np.array_split(ranks, 37):
        pieces = watch(pieces, part, 1e9)
    np.testing.assert_allclose(pieces.r, whole.r)
    assert pieces.n_events == whole.n_events == 992
    assert len(pieces.left) == 8


def test_simulation_based_calibration_finds_posteriors_that_are_too_sure() -> None:
    """Ranks of the simulating parameters over data sets; a posterior of halved deviations is the mutant."""
    model, rng = build("poisson", field="k", prior={"shape": 3.0, "rate": 1.0}), np.random.default_rng(8)
    ranks: dict[str, list[float]] = {"right": [], "sure": []}
    for _ in range(400):
        rate = rng.gamma(3.0, 1.0, 1)
        events = model.simulate(rng, {"rate": rate}, np.zeros((10, 1)))[0]
        draws = model.posterior(model.statistics(events)).sample(rng, 99)["rate"][:, None]
        ranks["right"].append(calibration.simulation_rank(rate, draws, rng)[0])
        ranks["sure"].append(calibration.simulation_rank(rate, 0.5 * (draws + draws.mean()), rng)[0])
    right, sure = (uniformity(np.array(ranks[name])) for name in ("right", "sure"))
    assert _near(right.shift, 0)
    assert _near(right.width, 1)
    assert not _near(sure.width, 1)
    assert sure.width.value > 1.4


def test_one_event_has_no_standard_error() -> None:
    for call in (lambda: uniformity(np.ones(1)), lambda: coverage(np.ones(1), 0.9)):
        with pytest.raises(ValueError, match="at least 2 events"):
            call()
