"""Windows: any interleaving and any minibatches give prior + the statistics of exactly the events inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from streaminfer.models.model import DomainError, Model
from streaminfer.variational import fold
from streaminfer.variational.forgetting import panes
from streaminfer.variational.forgetting.decay import Clock, total
from streaminfer.variational.forgetting.windows import MOST_PANES, LastEvents, LastSeconds
from streaminfer.variational.increment import Increment, Pane
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.snapshot import Snapshot
from tests.made import changed
from tests.models.examples import EXAMPLES, Example, model_of
from tests.variational.forgetting.test_decay import interleaved
from tests.variational.guarded import change

Window = LastEvents | LastSeconds
ALL = pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
RULES: list[Window] = [LastEvents(9), LastEvents(70), LastSeconds(7.3), LastSeconds(30.0)]
"""Panes of one position, of three (which do not divide the span), and of time."""
EACH = pytest.mark.parametrize("rule", RULES, ids=str)


@dataclass(frozen=True)
class Stream:
    """Events of several partitions at rising positions with holes, with their times; some are late."""

    events: list[np.ndarray]
    positions: list[np.ndarray]
    times: list[np.ndarray]
    ends: list[int]

    def inside(self, rule: Window) -> np.ndarray:
        """Which of all events are in the window, partition by partition, from the definition."""
        if isinstance(rule, LastSeconds):
            places, ends = self.times, [max(t for part in self.times for t in part)] * len(self.times)
            width = rule.span / 64
        else:
            places, ends, width = self.positions, self.ends, math.ceil(rule.span / 64)
        return np.array([
            math.floor(place / width) >= math.floor((end - rule.span) / width)
            for part, end in zip(places, ends, strict=True) for place in part
        ])  # fmt: skip


def stream(example: Example, sizes: tuple[int, ...] = (110, 20, 50), seed: int = 1) -> Stream:
    rng = np.random.default_rng(seed)
    ends = [2 * n + 7 for n in sizes]
    positions = [np.sort(rng.permutation(end)[:n]) for n, end in zip(sizes, ends, strict=True)]
    times = [1.7e9 + np.sort(rng.uniform(0, 60, n)) - (rng.random(n) < 0.2) * rng.uniform(0, 50, n) for n in sizes]
    return Stream([example.events(rng, n) for n in sizes], positions, times, ends)


def increments(model: Model, given: Stream, rule: Window, rng: np.random.Generator) -> list[list[Increment]]:
    """As workers make them: every partition cut into minibatches at random, some of them without events."""
    found: list[list[Increment]] = []
    for p, (events, positions, times) in enumerate(zip(given.events, given.positions, given.times, strict=True)):
        cuts = sorted({0, given.ends[p], *rng.integers(0, given.ends[p], rng.integers(5, 25)).tolist()})
        found.append([])
        for begin, end in pairwise(cuts):
            here = (positions >= begin) & (positions < end)
            n = int(here.sum())
            statistics = model.statistics(events[here]) if n else model.empty()
            made = change(0.0, partition=p, begin=begin, end=end, n_events=n, statistics=statistics)
            places = positions.astype(float) if rule.pane else times
            found[-1].append(rule.dated(model, made, events[here], places[here]) if n else made)
    return found


def folded(model: Model, schedule: list[Increment], rule: Window) -> Snapshot:
    partitions = {increment.provenance.partition for increment in schedule}
    snapshot = changed(fold.start(model, "f"), positions=dict.fromkeys(partitions, 0))
    for increment in schedule:
        snapshot, outcome = fold.add(model, snapshot, increment, 0, rule)
        assert outcome is Outcome.FOLDED
    return snapshot


def assert_right(model: Model, given: Stream, rule: Window, definition: Window | None = None) -> None:
    """Several interleavings and cuts, each held against the sum over the single events inside."""
    inside = given.inside(definition or rule)
    every = np.concatenate(given.events)
    prior = model.posterior(model.empty()).natural
    single = np.array([model.posterior(model.statistics(event[None])).natural - prior for event in every])
    expected, sizes = prior + inside @ single, np.abs(prior) + inside @ np.abs(single)
    assert 0 < inside.sum() < 0.6 * len(every), "the window holds nothing, or nearly all"
    for seed in range(3):
        rng = np.random.default_rng(seed)
        snapshot = folded(model, interleaved(increments(model, given, rule, rng), rng), rule)
        natural = model.posterior(snapshot.payload.statistics).natural
        assert snapshot.n_effective == inside.sum()
        assert snapshot.n_events == len(every)
        assert (np.abs(natural - expected) <= 1e-9 * sizes).all(), (natural, expected)


@ALL
@EACH
def test_any_interleaving_gives_the_events_inside(example: Example, rule: Window) -> None:
    assert_right(model_of(example), stream(example), rule)


@EACH
def test_a_window_is_at_most_a_pane_longer_than_its_span(rule: Window) -> None:
    """The events inside are all of the span, and none that is a pane older."""
    given = stream(EXAMPLES[0])
    inside = given.inside(rule)
    if isinstance(rule, LastSeconds):
        ages = np.concatenate([max(map(max, given.times)) - times for times in given.times])
        pane = rule.span / 64
    else:
        ages = np.concatenate([end - at for at, end in zip(given.positions, given.ends, strict=True)]).astype(float)
        pane = math.ceil(rule.span / 64) - 1
    assert inside[ages <= rule.span].all()
    assert not inside[ages > rule.span + pane].any()


def test_a_window_longer_than_the_stream_forgets_nothing() -> None:
    for example in EXAMPLES:
        model, given = model_of(example), stream(example, (30, 8))
        whole = model.posterior(model.statistics(np.concatenate(given.events))).natural
        for rule in (LastEvents(10**15), LastSeconds(1e12)):
            rng = np.random.default_rng(1)
            snapshot = folded(model, interleaved(increments(model, given, rule, rng), rng), rule)
            np.testing.assert_allclose(model.posterior(snapshot.payload.statistics).natural, whole, rtol=1e-9)
            assert snapshot.n_effective == snapshot.n_events == 38


class APaneMore(LastEvents):
    def oldest(self, frontier: int) -> int:
        return LastEvents.oldest(self, frontier) - 1


class APaneLess(LastSeconds):
    def oldest(self, newest: float) -> int:
        return LastSeconds.oldest(self, newest) + 1


class EveryPartitionByTheSameFrontier(LastEvents):
    def _moved(self, model: Model, clocks: Any, increment: Increment, gained: Any) -> Any:
        farthest = max([increment.provenance.end, *(int(clock.newest) for clock in clocks.values())])
        return LastEvents._moved(self, model, clocks, changed(increment, end=farthest), gained)


class NothingMovesWithoutEvents(LastEvents):
    def passed(self, model: Model, clocks: Any, increment: Increment) -> Any:
        return clocks


class LateOnesAreNew(LastSeconds):
    def fold(self, model: Model, clocks: Any, increment: Increment) -> Any:
        newest = max([increment.payload.newest, *(clock.newest for clock in clocks.values())])
        late = {self._index(newest): pane for pane in increment.payload.panes.values()}
        return LastSeconds.fold(self, model, clocks, changed(increment, newest=newest, panes=late))


MUTANTS: list[tuple[Window, Window]] = [
    (APaneMore(70), LastEvents(70)), (APaneLess(30.0), LastSeconds(30.0)),
    (EveryPartitionByTheSameFrontier(70), LastEvents(70)), (NothingMovesWithoutEvents(9), LastEvents(9)),
    (LateOnesAreNew(7.3), LastSeconds(7.3)),
]  # fmt: skip


@pytest.mark.parametrize(("mutant", "definition"), MUTANTS, ids=lambda rule: type(rule).__name__)
def test_mutants_are_found(mutant: Window, definition: Window) -> None:
    example = EXAMPLES[0]
    with pytest.raises(AssertionError):
        assert_right(model_of(example), stream(example), mutant, definition)


def _dead_stay(model: Model, window: panes.Window, changes: Any, oldest: int) -> panes.Window:
    return _moved(model, window, changes, min(oldest, min(window.panes, default=oldest)))


def _sums_stay(model: Model, window: panes.Window, changes: Any, oldest: int) -> panes.Window:
    """Drops panes and not what they are in."""
    after = _moved(model, window, changes, oldest)
    return after._replace(sums=window.sums) if after.since >= window.since else after


def _recent_stays(model: Model, window: panes.Window, changes: Any, oldest: int) -> panes.Window:
    """Never sums anew what came since the sums were made."""
    return _moved(model, window._replace(since=frozenset()), changes, oldest)


_moved = panes.moved


def assert_sums(moved: Callable[..., panes.Window], steps: int = 400) -> None:
    """After each of many random changes the sum is that of the live panes, each a whole number: so exactly."""
    model, rng = model_of(next(example for example in EXAMPLES if example.kind == "poisson")), np.random.default_rng(6)
    window, expected, newest = panes.of(model, {}), dict[int, np.ndarray](), 0
    for _ in range(steps):
        newest += int(rng.integers(0, 3)) if rng.random() < 0.98 else 30
        oldest = newest - 10
        indices = {newest - int(rng.integers(0, 14)) for _ in range(int(rng.integers(0, 3)))}
        gained = {index: Pane(1, rng.integers(0, 100, 3).astype(float)) for index in sorted(indices)}
        window = moved(model, window, gained, oldest)
        for index, pane in gained.items():
            expected[index] = expected.get(index, model.empty()) + pane.statistics
        expected = {index: each for index, each in expected.items() if index >= oldest}
        assert {index: pane.statistics.tolist() for index, pane in window.panes.items()} == {
            index: each.tolist() for index, each in expected.items()
        }
        assert panes.total(model, window).tolist() == sum(expected.values(), model.empty()).tolist()


def test_the_sum_is_that_of_the_live_panes_after_every_change() -> None:
    assert_sums(panes.moved)


@pytest.mark.parametrize("mutant", [_dead_stay, _sums_stay, _recent_stays])
def test_sums_of_the_wrong_panes_are_found(mutant: Callable[..., panes.Window]) -> None:
    with pytest.raises(AssertionError):
        assert_sums(mutant)


def test_a_far_outlier_leaves_nothing_behind_when_it_leaves() -> None:
    """A value of 1e12 in the scatter, subtracted again, would leave an error of 1e8: nothing is subtracted."""
    example = next(example for example in EXAMPLES if example.kind == "gaussian")
    model, rule = model_of(example), LastEvents(64)
    events = example.events(np.random.default_rng(4), 300)
    events[50] *= 1e12
    given = Stream([events], [np.arange(300)], [np.zeros(300)], [300])
    found = folded(model, increments(model, given, rule, np.random.default_rng(5))[0], rule)
    want = model.posterior(model.statistics(events[-64:]))
    np.testing.assert_allclose(model.posterior(found.payload.statistics).natural, want.natural, rtol=1e-12)


@EACH
def test_a_change_costs_a_few_merges_however_many_panes_there_are(
    rule: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the mean over a stream of one event an increment: summing 64 panes each time would cost 64."""
    example = EXAMPLES[0]
    model = model_of(example)
    merges, merge = 0, type(model).merge

    def counted(*arguments: Any) -> Any:
        nonlocal merges
        merges += 1
        return merge(*arguments)

    monkeypatch.setattr(type(model), "merge", counted)
    n = 600
    events = example.events(np.random.default_rng(1), n)
    snapshot = changed(fold.start(model, "f"), positions={0: 0})
    rng = np.random.default_rng(2)
    for i in range(n):
        late = rng.uniform(0, 3) if rng.random() < 0.3 else 0.0
        place = np.array([float(i) if rule.pane else 1e9 + 0.1 * i - late])
        made = change(0.0, begin=i, end=i + 1, statistics=model.statistics(events[i : i + 1]))
        snapshot, _ = fold.add(model, snapshot, rule.dated(model, made, events[i : i + 1], place), 0, rule)
    assert merges / n < 8


@EACH
def test_what_is_dropped_or_rejected_brings_nothing(rule: Window) -> None:
    example = EXAMPLES[0]
    model, given = model_of(example), stream(example, (5,))
    before = folded(model, increments(model, given, rule, np.random.default_rng(1))[0], rule)
    at = before.frontier.positions[0]
    index = at // rule.pane if rule.pane else rule._index(before.payload.clocks[0].newest)
    bad = {index: Pane(1, np.array([-1.0, 2.0]))}
    for begin, wanted in [(0, Outcome.BEHIND), (at + 1, Outcome.AHEAD), (at, Outcome.REJECTED)]:
        given_change = change(
            0.0, begin=begin, end=begin + 1, statistics=model.empty(), newest=before.payload.clocks[0].newest, panes=bad
        )
        after, outcome = fold.add(model, before, given_change, 0, rule)
        assert outcome is wanted
        assert after.n_events == before.n_events
        if wanted is not Outcome.REJECTED or not rule.pane:
            assert after.payload.clocks is before.payload.clocks
            assert after.payload.statistics is before.payload.statistics


def test_a_rejected_increment_moves_a_window_of_positions_like_one_without_events() -> None:
    example, rule = EXAMPLES[0], LastEvents(4)
    model, given = model_of(example), Stream([np.ones((6, 1))], [np.arange(6)], [np.zeros(6)], [6])
    before = folded(model, increments(model, given, rule, np.random.default_rng(1))[0], rule)
    assert (before.n_effective, before.payload.statistics.tolist()) == (4.0, model.statistics(np.ones((4, 1))).tolist())
    bad = change(0.0, begin=6, end=9, n_events=3, statistics=model.empty(), panes={8: Pane(3, np.array([-1.0, 2.0]))})
    empty = change(0.0, begin=6, end=9, n_events=0, n_dead_lettered=3, statistics=model.empty())
    for increment, wanted in [(bad, Outcome.REJECTED), (empty, Outcome.FOLDED)]:
        after, outcome = fold.add(model, before, increment, 0, rule)
        assert outcome is wanted
        assert (after.n_effective, after.n_events, after.frontier.positions) == (1.0, 6, {0: 9})
        assert after.payload.statistics.tolist() == model.statistics(np.ones((1, 1))).tolist()


LIES: list[tuple[Window, dict[str, Any]]] = [
    (LastEvents(200), {"begin": 8, "end": 12, "panes": {1: 1}}),
    (LastEvents(200), {"begin": 8, "end": 12, "panes": {2: 1, 3: 1}}),
    (LastSeconds(64.0), {"panes": {101: 1}, "newest": 100.5}),
    (LastSeconds(64.0), {"panes": {99: 1}, "newest": 100.5}),
    (LastSeconds(64.0), {"panes": {}, "newest": 100.5}),
]


@pytest.mark.parametrize(("rule", "fields"), LIES, ids=str)
def test_an_increment_with_panes_that_it_cannot_have_is_rejected(rule: Window, fields: Mapping[str, Any]) -> None:
    model = model_of(EXAMPLES[0])
    found = {index: Pane(n, model.statistics(np.ones((n, 1)))) for index, n in fields["panes"].items()}
    lie = change(0.0, **{"n_events": 2, "statistics": model.empty(), **fields, "panes": found})
    snapshot = changed(fold.start(model, "f"), positions={0: lie.provenance.begin})
    after, outcome = fold.add(model, snapshot, lie, 0, rule)
    assert outcome is Outcome.REJECTED
    assert (after.n_events, after.counts.n_rejected, after.n_effective) == (0, 2, 0)


def test_hostile_times_make_no_more_panes_than_a_window_has() -> None:
    model = model_of(EXAMPLES[0])
    rng = np.random.default_rng(3)
    for span in (0.01, 1.0, 1e5):
        for newest in (1.7e9, 2.5e11, -6e10):
            times = newest - np.concatenate([[0.0], rng.uniform(0, 3 * span, 2000)])
            events = np.ones((len(times), 1))
            rule = LastSeconds(span)
            made = rule.dated(model, change(0.0, statistics=model.statistics(events)), events, times)
            assert 2 <= len(made.payload.panes) <= MOST_PANES
            assert made.payload.newest == times.max()
            assert sum(pane.n_events for pane in made.payload.panes.values()) >= (times >= times.max() - span).sum()


@EACH
def test_stored_panes_give_the_same_window_and_others_are_refused(rule: Window) -> None:
    example = EXAMPLES[-1]
    model, given = model_of(example), stream(example)
    rng = np.random.default_rng(7)
    before = folded(model, interleaved(increments(model, given, rule, rng), rng), rule)
    stored = {i: dict(clock.window.panes) for i, clock in before.payload.clocks.items() if clock.window}
    shown = rule.summary(before)
    clocks = rule.restored(model, shown, stored)
    np.testing.assert_allclose(total(model, clocks), before.payload.statistics, rtol=1e-12, atol=1e-12)
    assert changed(before, clocks=clocks).n_effective == before.n_effective == shown.n_effective
    assert {i: clock.newest for i, clock in clocks.items()} == {
        i: clock.newest for i, clock in before.payload.clocks.items()
    }
    any_pane = next(iter(stored[0].values()))
    for wrong in (min(stored[0]) - 70, max(stored[0]) + 70):
        with pytest.raises(DomainError, match="is outside the window from pane"):
            rule.restored(model, shown, {**stored, 0: {**stored[0], wrong: any_pane}})
    with pytest.raises(DomainError, match="panes of a clock 77 that the snapshot does not have"):
        rule.restored(model, shown, {**stored, 77: stored[0]})


def test_a_published_snapshot_has_one_clock_whatever_the_partitions() -> None:
    for rule in RULES:
        example = EXAMPLES[0]
        model, given = model_of(example), stream(example)
        rng = np.random.default_rng(7)
        shown = rule.summary(folded(model, interleaved(increments(model, given, rule, rng), rng), rule))
        assert list(shown.payload.clocks) == [0]
        assert isinstance(shown.payload.clocks[0], Clock)
        assert shown.payload.clocks[0].statistics.tolist() == shown.payload.statistics.tolist()
