"""Forgetting: any interleaving and any minibatches give prior + sum of weight * statistics, event by event."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from streaminfer.models.model import Model
from streaminfer.spec import parse_spec
from streaminfer.variational import fold
from streaminfer.variational.base import prior
from streaminfer.variational.forgetting import decay, rules
from streaminfer.variational.forgetting.decay import ByEvents, ByTime, Clock, Clocks, Forgetting
from streaminfer.variational.forgetting.windows import LastEvents, LastSeconds
from streaminfer.variational.increment import Increment
from streaminfer.variational.methods import svb
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot
from tests.made import changed, new_increment
from tests.models.examples import EXAMPLES, Example, model_of
from tests.variational.guarded import change

ALL = pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
KINDS: list[Forgetting] = [ByEvents(7.5), ByTime(20.0)]
Natural = Callable[[Model, Snapshot], np.ndarray]
BOTH = pytest.mark.parametrize("rule", KINDS, ids=["events", "time"])


@dataclass(frozen=True)
class Stream:
    """Events of several partitions with their times; some are late."""

    events: list[np.ndarray]
    times: list[np.ndarray]

    def weights(self, rule: Forgetting) -> np.ndarray:
        """The weights of all events, partition by partition, from the definition."""
        if isinstance(rule, ByEvents):
            ages = [[(len(part) - 1 - i) / rule.half_life for i in range(len(part))] for part in self.events]
        else:
            assert isinstance(rule, ByTime)
            newest = max(t for part in self.times for t in part)
            ages = [[(newest - t) / rule.half_life for t in part] for part in self.times]
        return np.array([math.pow(0.5, age) for part in ages for age in part])


def stream(example: Example, sizes: tuple[int, ...] = (31, 8, 17), seed: int = 1) -> Stream:
    rng = np.random.default_rng(seed)
    begin = 1.7e9
    times = [begin + np.sort(rng.uniform(0, 60, n)) - (rng.random(n) < 0.2) * rng.uniform(0, 50, n) for n in sizes]
    return Stream([example.events(rng, n) for n in sizes], times)


def increments(model: Model, given: Stream, rule: Forgetting, rng: np.random.Generator) -> list[list[Increment]]:
    """As workers make them: every partition cut into minibatches at random."""
    found: list[list[Increment]] = []
    for p, (events, times) in enumerate(zip(given.events, given.times, strict=True)):
        cuts = sorted({0, len(events), *rng.integers(0, len(events) + 1, rng.integers(0, 6)).tolist()})
        found.append([])
        for begin, end in pairwise(cuts):
            weights = rule.weights(end - begin, times[begin:end])
            step = svb.step(model, prior(model), events[begin:end], weights)
            found[-1].append(change(
                0.0, partition=p, begin=begin, end=end, n_events=end - begin, statistics=step.statistics,
                n_effective=float(weights.sum()), newest=float(times[begin:end].max()),
            ))  # fmt: skip
    return found


def interleaved(parts: list[list[Increment]], rng: np.random.Generator) -> list[Increment]:
    """Each partition in its order, the partitions in any."""
    order = rng.permutation([p for p, part in enumerate(parts) for _ in part])
    sources = [iter(part) for part in parts]
    return [next(sources[p]) for p in order]


def folded(model: Model, schedule: list[Increment], rule: Forgetting | None) -> Snapshot:
    partitions = {increment.provenance.partition for increment in schedule}
    snapshot = changed(fold.start(model, "f"), positions=dict.fromkeys(partitions, 0))
    for increment in schedule:
        snapshot, outcome = fold.add(model, snapshot, increment, 0, rule)
        assert outcome is Outcome.FOLDED
    return snapshot


def right(model: Model, snapshot: Snapshot) -> np.ndarray:
    return model.posterior(snapshot.payload.statistics).natural


def assert_right(
    model: Model, given: Stream, rule: Forgetting, weigher: Forgetting | None = None, natural_of: Natural = right
) -> None:
    """Several interleavings and cuts, each held against the sum over single events."""
    weights = given.weights(weigher or rule)
    every = np.concatenate(given.events)
    prior = model.posterior(model.empty()).natural
    single = np.array([model.posterior(model.statistics(event[None])).natural - prior for event in every])
    expected = prior + weights @ single
    sizes = np.abs(prior) + weights @ np.abs(single)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        snapshot = folded(model, interleaved(increments(model, given, rule, rng), rng), rule)
        natural = natural_of(model, snapshot)
        assert (np.abs(natural - expected) <= 1e-9 * sizes).all(), (natural, expected)
        assert snapshot.n_effective == pytest.approx(weights.sum(), rel=1e-9)
        assert snapshot.n_events == len(every)


@ALL
@BOTH
def test_any_interleaving_gives_the_sum_of_weighted_events(example: Example, rule: Forgetting) -> None:
    assert_right(model_of(example), stream(example), rule)


@ALL
@BOTH
def test_moments_agree_between_interleavings_and_with_one_weighted_batch(example: Example, rule: Forgetting) -> None:
    model, given = model_of(example), stream(example, seed=3)
    batch = model.posterior(model.statistics(np.concatenate(given.events), given.weights(rule)))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        snapshot = folded(model, interleaved(increments(model, given, rule, rng), rng), rule)
        found = model.posterior(snapshot.payload.statistics)
        assert found.log_evidence() == pytest.approx(batch.log_evidence(), rel=1e-9, abs=1e-9)
        for name, moments in batch.moments().items():
            np.testing.assert_allclose(found.moments()[name].mean, moments.mean, rtol=1e-9)
            np.testing.assert_allclose(found.moments()[name].sd, moments.sd, rtol=1e-9)


@ALL
def test_a_half_life_without_end_forgets_nothing(example: Example) -> None:
    model, given = model_of(example), stream(example)
    for rule in (ByEvents(1e15), ByTime(1e12)):
        rng = np.random.default_rng(1)
        snapshot = folded(model, interleaved(increments(model, given, rule, rng), rng), rule)
        whole = model.posterior(model.statistics(np.concatenate(given.events))).natural
        np.testing.assert_allclose(model.posterior(snapshot.payload.statistics).natural, whole, rtol=1e-9)
        assert snapshot.n_effective == pytest.approx(snapshot.n_events, rel=1e-9)


class DecaysEveryPartition(ByEvents):
    """An event of one partition ages the events of all."""

    def fold(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        halvings = increment.n_events / self.half_life
        mine = increment.provenance.partition
        others = {p: c if p == mine else decay.decayed(model, c, halvings) for p, c in clocks.items()}
        return ByEvents.fold(self, model, others, increment)


class ForgetsBetweenMinibatchesOnly(ByEvents):
    """Within a minibatch all events count alike."""

    def weights(self, n: int, times: Any) -> np.ndarray:
        return np.ones(n)


class LateOnesCountFully(ByTime):
    """An increment that is older than what is held is added as it is."""

    def fold(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        newest = max([increment.payload.newest, *(clock.newest for clock in clocks.values())])
        return ByTime.fold(self, model, clocks, changed(increment, newest=newest))


class TimeStandsStill(ByTime):
    """What is held does not age when something newer comes."""

    def fold(self, model: Model, clocks: Clocks, increment: Increment) -> Clocks:
        younger = {i: c._replace(newest=max(c.newest, increment.payload.newest)) for i, c in clocks.items()}
        return ByTime.fold(self, model, younger, increment)


MUTANTS: list[Forgetting] = [
    DecaysEveryPartition(7.5), ForgetsBetweenMinibatchesOnly(7.5), LateOnesCountFully(20.0), TimeStandsStill(20.0),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: type(mutant).__name__)
@ALL
def test_mutants_are_found(example: Example, mutant: Forgetting) -> None:
    weigher = ByEvents(7.5) if isinstance(mutant, ByEvents) else ByTime(20.0)
    with pytest.raises(AssertionError):
        assert_right(model_of(example), stream(example), mutant, weigher)


def prior_decayed_too(model: Model, snapshot: Snapshot) -> np.ndarray:
    """The classical mistake: eta <- weight * eta + delta scales the prior with the rest."""
    prior = model.posterior(model.empty()).natural
    return model.posterior(snapshot.payload.statistics).natural - (1 - 2 ** (-snapshot.n_events / 7.5)) * prior


@ALL
@BOTH
def test_a_decayed_prior_is_found(example: Example, rule: Forgetting) -> None:
    with pytest.raises(AssertionError):
        assert_right(model_of(example), stream(example), rule, natural_of=prior_decayed_too)


def test_after_a_long_silence_only_the_prior_is_left_and_it_is_whole() -> None:
    for example in EXAMPLES:
        model = model_of(example)
        events = example.events(np.random.default_rng(2), 20)
        for halvings, n in [(10.0, 20 * 2.0**-10), (990.0, 20 * 2.0**-990), (1100.0, 0.0), (1e9, 0.0), (1e300, 0.0)]:
            aged = decay.decayed(model, Clock(model.statistics(events), 20.0), halvings)
            assert aged.n_effective == n
            found = model.posterior(aged.statistics)
            if halvings > 100:
                prior = model.posterior(model.empty())
                np.testing.assert_allclose(found.natural, prior.natural, rtol=1e-12, atol=1e-290)
            fresh = model.statistics(events[:3])
            again = model.posterior(model.merge(aged.statistics, fresh))
            if halvings > 100:
                np.testing.assert_allclose(again.natural, model.posterior(fresh).natural, rtol=1e-12)


def test_a_count_never_underflows_before_what_it_counts() -> None:
    """Values of 1e50, aged twice: 20 * 2^-1090 is 0 in float64 while the scatter times 2^-1090 is not."""
    for example in EXAMPLES:
        if example.kind in {"gaussian", "linear_regression"}:
            model = model_of(example)
            events = example.events(np.random.default_rng(2), 20) * 1e50
            aged = decay.decayed(model, Clock(model.statistics(events), 20.0), 900)
            for halvings in range(90, 300, 5):
                model.posterior(decay.decayed(model, aged, halvings).statistics)


@BOTH
def test_weights_are_one_for_the_newest_and_clean_zeros_for_the_oldest(rule: Forgetting) -> None:
    times = np.array([1.7e9, 0.0, 1.7e9 - 20 * 1050, 1.7e9 - 20.0])
    many = replace(rule, half_life=0.01) if isinstance(rule, ByEvents) else rule
    weights = many.weights(4 if isinstance(rule, ByTime) else 50, times)
    assert weights.max() == 1.0
    assert ((weights == 0) | (weights >= decay.FLOOR)).all()
    assert (weights == 0).sum() == (2 if isinstance(rule, ByTime) else 39)
    if isinstance(rule, ByTime):
        assert weights.tolist() == [1.0, 0.0, 0.0, 0.5]


@BOTH
def test_increments_without_events_age_nothing(rule: Forgetting) -> None:
    example = EXAMPLES[0]
    model, given = model_of(example), stream(example, sizes=(5,))
    before = folded(model, increments(model, given, rule, np.random.default_rng(1))[0], rule)
    empty = change(0.0, begin=5, end=99, n_events=0, n_dead_lettered=94, statistics=model.empty())
    after, outcome = fold.add(model, before, empty, 0, rule)
    assert (outcome, after.frontier.positions) == (Outcome.FOLDED, {0: 99})
    assert after.payload.statistics is before.payload.statistics
    assert after.payload.clocks is before.payload.clocks


@BOTH
def test_what_is_dropped_or_rejected_ages_nothing(rule: Forgetting) -> None:
    example = EXAMPLES[0]
    model, given = model_of(example), stream(example, sizes=(5,))
    before = folded(model, increments(model, given, rule, np.random.default_rng(1))[0], rule)
    for place, wanted in [((0, 5), Outcome.BEHIND), ((6, 8), Outcome.AHEAD), ((5, 8), Outcome.REJECTED)]:
        bad = np.array([-1.0, 2.0])
        given_change = change(0.0, begin=place[0], end=place[1], statistics=bad, n_effective=1.0, newest=2e9)
        after, outcome = fold.add(model, before, given_change, 0, rule)
        assert outcome is wanted
        assert after.payload.clocks is before.payload.clocks
        assert after.payload.statistics is before.payload.statistics


def test_every_kind_of_the_spec_is_known() -> None:
    makers: dict[str, Callable[..., Forgetting]] = {
        "half_life_events": ByEvents, "half_life_seconds": ByTime,
        "window_events": LastEvents, "window_seconds": LastSeconds,
    }  # fmt: skip
    assert rules.of(None) is None
    assert rules.window_of(None) is None
    for kind, maker in makers.items():
        assert rules.of({kind: 3.0}) == maker(3.0)
        assert rules.window_of({kind: 3.0}) == (maker(3.0) if kind.startswith("window") else None)
    assert rules.KINDS.keys() == makers.keys()


def test_a_clock_that_gives_no_posterior_by_itself_is_not_folded() -> None:
    """A master that restores the snapshot reads each clock by itself: the sum of all says nothing of it."""
    model = parse_spec(
        {"name": "d", "model": {"kind": "logistic_regression", "features": ["a"], "target": "y", "intercept": False}}
    ).model
    rule = ByEvents(1e9)
    sure, unsure = np.array([0.0, 100.0]), np.array([0.0, -50.0])
    assert model.posterior(sure + unsure).natural is not None
    snapshot = changed(fold.start(model, "f"), positions={0: 0, 1: 0})
    for partition, given in enumerate((sure, unsure)):
        increment = new_increment(partition=partition, n_events=1, statistics=given)
        snapshot, outcome = fold.add(model, snapshot, increment, 0, rule)
    assert outcome is not Outcome.FOLDED
    for clock in snapshot.payload.clocks.values():
        model.posterior(clock.statistics)
