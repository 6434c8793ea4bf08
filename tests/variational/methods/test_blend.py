"""Steps of stochastic variational inference, on a model whose answer is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from streaminfer.spec import Inference, StepSize
from streaminfer.variational import fold, methods
from streaminfer.variational.methods import blend, svi
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.settings import PLAIN
from streaminfer.variational.snapshot import Snapshot
from tests.made import new_snapshot
from tests.variational.guarded import change
from tests.variational.plain import Plain, counts

MODEL = Plain()


def inference(population: int | None = None, **step: Any) -> Inference:
    return Inference("svi", 100, 0, 0, 100, 100, step=StepSize(**step), population=population)


def start() -> Snapshot:
    return new_snapshot(fingerprint="f", version=1, statistics=MODEL.empty(), positions={0: 0})


def stepped(rules: Inference, batches: Sequence[np.ndarray]) -> Snapshot:
    """The snapshot after a step with each minibatch."""
    snapshot = start()
    for events in batches:
        given = svi.step(MODEL, methods.base_of(MODEL, rules, snapshot), events).statistics
        at = snapshot.frontier.positions[0]
        increment = change(0.0, begin=at, end=at + len(events), n_events=len(events), statistics=given)
        snapshot, outcome = fold.add(MODEL, snapshot, increment, 0, inference=rules)
        assert outcome is Outcome.FOLDED
    return snapshot


def natural(rules: Inference, snapshot: Snapshot) -> np.ndarray:
    return MODEL.posterior(blend.published(MODEL, rules, snapshot)).natural


def exact(events: np.ndarray) -> np.ndarray:
    return MODEL.posterior(MODEL.poisson.statistics(events)).natural


def test_a_step_of_size_one_on_all_events_is_coordinate_ascent() -> None:
    events = counts(50)
    rules = inference(constant=1.0)
    np.testing.assert_allclose(natural(rules, stepped(rules, [events])), exact(events), rtol=1e-10)
    again = stepped(rules, [counts(70, seed=2), events])
    held = MODEL.posterior(blend.iterate(MODEL, inference(50, constant=1.0), again)).natural
    np.testing.assert_allclose(held, exact(events), rtol=1e-10, err_msg="it leaves nothing of the steps before")


def test_the_schedule_is_that_of_robbins_and_monro() -> None:
    sizes = [StepSize(tau=2.0, kappa=0.7).at(t) for t in (1, 2, 3)]
    assert sizes == [3.0**-0.7, 4.0**-0.7, 5.0**-0.7]
    rules, batches = inference(1000, tau=2.0, kappa=0.7), [counts(10, seed) for seed in (1, 2, 3)]
    held = np.zeros(2)
    for rho, events in zip(sizes, batches, strict=True):
        held = (1 - rho) * held + rho * 1000 / 10 * np.array([events.sum(), 10])
    np.testing.assert_allclose(natural(rules, stepped(rules, batches)), np.array([1.0, 1.0]) + held, rtol=1e-12)


UNEQUAL = [counts(5, 1), counts(50, 2) + 4, counts(20, 3)]


def gradients() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The noisy natural gradient of each minibatch from one place, their sizes' shares, and the gradient of all."""
    everything = np.concatenate(UNEQUAL)
    rules = inference(len(everything), constant=0.25)
    place = natural(rules, start())
    noisy = np.array([(natural(rules, stepped(rules, [events])) - place) / 0.25 for events in UNEQUAL])
    return noisy, np.array([len(events) for events in UNEQUAL]) / len(everything), exact(everything) - place


def test_noisy_gradients_weighted_by_size_average_to_the_full_one() -> None:
    noisy, shares, full = gradients()
    np.testing.assert_allclose(shares @ noisy, full, rtol=1e-10)


def test_their_plain_average_does_not() -> None:
    noisy, _, full = gradients()
    assert abs(noisy.mean(axis=0) / full - 1).max() > 0.05


GROWING = [counts(10, seed) for seed in range(40)]


def test_with_as_many_as_seen_so_far_steps_of_one_over_t_give_the_posterior_of_all() -> None:
    rules = inference(tau=0.0, kappa=1.0)
    np.testing.assert_allclose(natural(rules, stepped(rules, GROWING)), exact(np.concatenate(GROWING)), rtol=1e-10)


def test_statistics_scaled_when_they_are_sent_would_count_half() -> None:
    held = np.zeros(2)
    for t, events in enumerate(GROWING, 1):
        n_then = 10 * t
        held = (1 - 1 / t) * held + 1 / t * n_then / 10 * np.array([events.sum(), 10])
    full = exact(np.concatenate(GROWING)) - 1
    assert held / full == pytest.approx(0.5, rel=0.05)


def test_constant_steps_publish_a_tail_average() -> None:
    rules = inference(100, constant=0.2)
    found = stepped(rules, GROWING)
    iterates = [stepped(rules, GROWING[:t]).payload.statistics for t in range(1, 41)]
    weights = np.array([np.prod([1 - 4 / (s + 3) for s in range(t + 1, 41)]) * 4 / (t + 3) for t in range(1, 41)])
    assert weights.sum() == pytest.approx(1, rel=1e-12)
    assert weights[20:].sum() > 0.9, "most of it is of the later half"
    assert found.payload.average is not None
    np.testing.assert_allclose(found.payload.average, weights @ np.array(iterates), rtol=1e-12)
    np.testing.assert_allclose(natural(rules, found), 1 + 100 * found.payload.average[:2], rtol=1e-12)
    np.testing.assert_array_equal(methods.base_of(MODEL, rules, found).statistics, 100 * found.payload.statistics)
    noise = np.std([each[0] for each in iterates[20:]])
    assert np.std([stepped(rules, GROWING[:t]).payload.average[0] for t in range(30, 41)]) < noise / 2


def test_the_average_is_only_kept_of_constant_steps() -> None:
    assert stepped(inference(), GROWING[:3]).payload.average is None


@pytest.mark.parametrize("statistics", [[-1.0, 5.0, 0.0], [np.inf, 5.0, 0.0]])
def test_what_is_no_sum_of_events_is_rejected(statistics: list[float]) -> None:
    before = stepped(inference(), GROWING[:3])
    bad = change(0.0, begin=30, end=35, n_events=5, statistics=np.array(statistics))
    after, outcome = fold.add(MODEL, before, bad, 0, inference=inference())
    assert outcome is Outcome.REJECTED
    assert (after.counts.n_rejected, after.payload.n_steps, after.frontier.positions[0]) == (5, 3, 35)
    np.testing.assert_array_equal(after.payload.statistics, before.payload.statistics)


def test_an_increment_without_events_is_no_step() -> None:
    before = stepped(inference(), GROWING[:3])
    empty = change(0.0, begin=30, end=31, n_events=0, statistics=MODEL.empty())
    after, outcome = fold.add(MODEL, before, empty, 0, inference=inference())
    assert (outcome, after.payload.n_steps, after.frontier.positions[0]) == (Outcome.FOLDED, 3, 31)


@pytest.mark.parametrize(("seen", "of_base", "fits"), [(0, 0, True), (10, 0, False), (20, 10, True), (21, 10, False)])
def test_as_many_events_may_come_between_as_the_base_had(seen: int, of_base: int, fits: bool) -> None:
    before = new_snapshot(
        fingerprint="f", version=5, statistics=np.array([1.0, 1.0, 0.0]), positions={0: 0}, n_events=seen
    )
    given = change(0.0, n_events=1, statistics=np.array([1.0, 1.0, 0.0]))
    for rules in (PLAIN, inference()):
        after, outcome = fold.add(MODEL, before, given, 0, inference=rules, base_events=of_base)
        assert outcome is (Outcome.FOLDED if fits else Outcome.STALE_BASE)
        assert after.frontier.positions[0] == (1 if fits else 0)


@pytest.mark.parametrize("step", [{"tau": 64}, {"tau": 0, "kappa": 0.6}, {"tau": 3, "kappa": 1.0}, {"constant": 0.05}])
@pytest.mark.parametrize("n", [1, 2, 40, 4096, 9000])
def test_what_steps_leave_of_their_start_is_the_product(step: dict[str, float], n: int) -> None:
    found = StepSize(**step)
    direct = np.prod([1 - found.at(t) for t in range(1, n + 1)])
    assert found.left(n) == pytest.approx(direct, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("step", [{"tau": 64}, {"constant": 0.05}, {"constant": 1.0}])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_with_as_many_as_seen_so_far_a_posterior_stands_for_all_from_the_first_step_on(
    step: dict[str, float], n: int
) -> None:
    """If all minibatches are alike, the posterior is that of all their events."""
    rules, events = inference(**step), counts(5)
    found = stepped(rules, [events] * n)
    np.testing.assert_allclose(natural(rules, found), exact(np.vstack([events] * n)), rtol=1e-9)
    of_iterate = MODEL.posterior(blend.iterate(MODEL, rules, found)).natural
    np.testing.assert_allclose(of_iterate, exact(np.vstack([events] * n)), rtol=1e-9)
