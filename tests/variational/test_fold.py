"""The fold: what becomes of one increment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streaminfer.models.conjugate.bernoulli import Bernoulli
from streaminfer.variational import fold
from streaminfer.variational.methods.adding import DAMPINGS
from streaminfer.variational.outcomes import Outcome
from tests.made import changed
from tests.variational.guarded import Guarded, change, standing

MODEL = Guarded(limit=1.0)
FRESH = 5


def test_the_start_is_the_prior_and_knows_no_partition() -> None:
    start = fold.start(Bernoulli("y"), "abc")
    assert (start.fingerprint, start.version, start.frontier.positions, start.n_events) == ("abc", 0, {}, 0)
    assert start.payload.statistics.tolist() == [0.0, 0.0]


def test_an_increment_at_the_frontier_is_folded_with_its_counts() -> None:
    before = standing(0.5, positions={0: 4, 1: 9}, n_events=10, n_lost=1, n_dead_lettered=2, score=-3.0, staleness=1)
    given = change(2.0, begin=4, end=12, n_events=3, n_dead_lettered=2, n_lost=1, score=-4.5, base_version=2)
    after, outcome = fold.add(MODEL, before, given, FRESH)
    assert outcome is Outcome.FOLDED
    assert outcome.moved
    assert after.payload.statistics.tolist() == [2.5]
    assert after.frontier.positions == {0: 12, 1: 9}
    assert (after.n_events, after.counts.n_lost, after.counts.n_dead_lettered) == (13, 2, 4)
    assert (after.counts.n_damped, after.counts.n_rejected, after.counts.n_dropped) == (0, 0, 0)
    assert after.counts.score == -7.5
    assert after.counts.staleness == 3
    assert after.version == before.version
    assert before.frontier.positions == {0: 4, 1: 9}


@pytest.mark.parametrize(
    ("place", "outcome"),
    [
        ({"begin": 3, "end": 9}, Outcome.BEHIND),
        ({"begin": 0, "end": 4}, Outcome.BEHIND),
        ({"begin": 5, "end": 9}, Outcome.AHEAD),
        ({"begin": 4, "end": 9, "partition": 1}, Outcome.UNKNOWN_PARTITION),
    ],
)
def test_anything_else_changes_nothing_but_a_count(place: dict[str, int], outcome: Outcome) -> None:
    before = standing(positions={0: 4}, n_dropped=7)
    after, found = fold.add(MODEL, before, change(1.0, **place), FRESH)
    assert found is outcome
    assert not outcome.moved
    assert after.counts.n_dropped == 8
    assert replace(after.counts, n_dropped=7) == before.counts
    assert (after.frontier, after.read_to, after.version) == (before.frontier, before.read_to, before.version)
    assert after.payload.statistics is before.payload.statistics


@pytest.mark.parametrize(("n_lost", "n_bad"), [(8, 0), (0, 8), (0, 0)])
def test_an_increment_without_events_moves_the_frontier_only(n_lost: int, n_bad: int) -> None:
    given = change(-100.0, end=8, n_events=0, n_lost=n_lost, n_dead_lettered=n_bad, score=-9.0)
    after, outcome = fold.add(MODEL, standing(), given, FRESH)
    assert outcome is Outcome.FOLDED
    assert after.frontier.positions == {0: 8}
    assert after.payload.statistics.tolist() == [0.0]
    told = (after.n_events, after.counts.n_lost, after.counts.n_dead_lettered, after.counts.score)
    assert told == (0, n_lost, n_bad, 0.0)


def test_outside_the_domain_on_a_stale_base_is_left_to_the_worker() -> None:
    before = standing(0.0, n_dropped=1)
    after, outcome = fold.add(MODEL, before, change(-1.5, base_version=FRESH - 1), FRESH)
    assert outcome is Outcome.STALE_BASE
    assert not outcome.moved
    assert (after.counts.n_dropped, after.frontier.positions, after.n_events) == (2, {0: 0}, 0)


@pytest.mark.parametrize(("value", "weight"), [(-1.0, 0.5), (-1.5, 0.5), (-3.0, 0.25), (-1000.0, 2.0**-10)])
def test_outside_the_domain_on_a_fresh_base_is_damped_as_little_as_needed(value: float, weight: float) -> None:
    given = change(value, end=4, n_events=3, base_version=FRESH, score=-2.0)
    after, outcome = fold.add(MODEL, standing(), given, FRESH)
    assert outcome is Outcome.DAMPED
    assert outcome.moved
    assert after.payload.statistics.tolist() == [value * weight]
    assert (after.n_events, after.counts.n_damped, after.counts.n_rejected, after.counts.n_dropped) == (3, 3, 0, 0)
    assert after.frontier.positions == {0: 4}
    assert after.counts.score == -2.0


def test_what_no_damping_saves_is_folded_as_no_change() -> None:
    given = change(-1024.0, end=4, n_events=3, n_dead_lettered=1, base_version=FRESH, score=-2.0)
    after, outcome = fold.add(MODEL, standing(0.0), given, FRESH)
    assert DAMPINGS[-1] == 1 / 1024
    assert outcome is Outcome.REJECTED
    assert outcome.moved
    assert after.payload.statistics.tolist() == [0.0]
    told = (after.n_events, after.counts.n_damped, after.counts.n_rejected, after.counts.n_dead_lettered)
    assert told == (0, 0, 3, 1)
    assert after.frontier.positions == {0: 4}
    assert after.counts.score == 0.0


def test_a_stale_base_is_no_fault_inside_the_domain() -> None:
    after, outcome = fold.add(MODEL, standing(), change(3.0, base_version=0), FRESH)
    assert outcome is Outcome.FOLDED
    assert after.counts.staleness == 5


def test_statistics_that_no_events_give_are_rejected_even_if_the_sum_would_do() -> None:
    model = Bernoulli("y")
    before = changed(fold.start(model, "f"), positions={0: 0}, statistics=np.array([10.0, 10.0]), n_events=20)
    given = change(0.0, statistics=np.array([-1.0, 2.0]))
    after, outcome = fold.add(model, before, given, FRESH)
    assert outcome is Outcome.REJECTED
    assert after.payload.statistics.tolist() == [10.0, 10.0]
    assert (after.n_events, after.counts.n_rejected, after.frontier.positions) == (20, 1, {0: 1})


def test_a_sum_that_gives_no_posterior_is_rejected_though_both_of_its_parts_would() -> None:
    """A snapshot without a posterior could never be published."""
    model = Bernoulli("y")
    most = np.array([0.9e200, 0.0])
    before = changed(fold.start(model, "f"), positions={0: 0}, statistics=most)
    model.posterior(most)
    after, outcome = fold.add(model, before, change(0.0, statistics=most), FRESH)
    assert outcome is Outcome.REJECTED
    model.posterior(after.payload.statistics)
