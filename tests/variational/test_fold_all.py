"""Increments that are folded in one pass give what each after the other gives, to the last bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streaminfer.models.conjugate.poisson import Poisson
from streaminfer.models.model import Flags, Matrix, Model
from streaminfer.spec import parse_spec
from streaminfer.variational import fold
from streaminfer.variational.forgetting import rules
from streaminfer.variational.increment import Increment
from streaminfer.variational.outcomes import Outcome
from streaminfer.variational.settings import PLAIN
from streaminfer.variational.snapshot import Snapshot
from tests.made import changed, flat, new_increment

LINE = parse_spec({"name": "line", "model": {"kind": "linear_regression", "features": ["a", "b"], "target": "y"}}).model
FORGET: list[dict[str, float] | None] = [
    None,
    {"half_life_events": 9.0},
    {"half_life_seconds": 20.0},
    {"window_events": 40},
    {"window_seconds": 30.0},
]


def _learned(model: Model, events: Matrix, begin: int, partition: int, forget: dict[str, float] | None) -> Increment:
    """What a worker makes of events, one at each position and every second."""
    n, rule = len(events), rules.of(forget)
    places = np.arange(begin, begin + n, dtype=np.float64)
    weights = None if rule is None else rule.weights(n, places)
    made = new_increment(
        partition=partition, begin=begin, end=begin + n, n_events=n, score=float(-n) / 3,
        statistics=model.statistics(events, weights), n_dead_lettered=begin % 3,
    )  # fmt: skip
    return made if rule is None else rule.dated(model, made, events, places)


def _some(forget: dict[str, float] | None, rng: np.random.Generator) -> list[Increment]:
    """Of two partitions in turn; some again, some too early, and one without events."""
    found: list[Increment] = []
    at = [0, 0]
    for i in range(20):
        partition, n = i % 2, int(rng.integers(1, 12))
        found.append(_learned(LINE, rng.normal(size=(n, 3)), at[partition], partition, forget))
        at[partition] += n
        if i == 7:
            gap = new_increment(partition=1, begin=at[1], end=at[1] + 4, n_lost=4, statistics=LINE.empty())
            found.append(gap)
            at[1] += 4
    return [*found[:6], found[2], found[18], *found[6:], found[-1]]


def _start(model: Model) -> Snapshot:
    return changed(fold.start(model, "f"), positions={0: 0, 1: 0})


@pytest.mark.parametrize("forget", FORGET, ids=str)
def test_one_pass_is_the_same_to_the_last_bit(forget: dict[str, float] | None) -> None:
    inference, rule = replace(PLAIN, forget=forget), rules.of(forget)
    for seed in range(20):
        found = _some(forget, np.random.default_rng(seed))
        one, expected = _start(LINE), []
        for increment in found:
            one, outcome = fold.add(LINE, one, increment, 0, rule, None, inference)
            expected.append(outcome)
        whole = fold.add_all(LINE, _start(LINE), found, rule, inference)
        assert whole is not None
        both, outcomes = whole
        assert outcomes == expected
        assert {Outcome.FOLDED, Outcome.BEHIND, Outcome.AHEAD} == set(outcomes)
        assert _told(both) == _told(one)


def _told(snapshot: Snapshot) -> dict[str, Any]:
    found = flat(snapshot)
    clocks = {i: (c.statistics.tolist(), c.n_effective, c.newest) for i, c in snapshot.payload.clocks.items()}
    return {**found, "clocks": clocks}


def test_one_that_no_events_can_have_made_is_rejected_and_the_others_are_folded() -> None:
    model = Poisson("k")
    events = np.array([[1.0], [2.0]])
    found = [_learned(model, events, 2 * i, 0, None) for i in range(5)]
    found[2] = changed(found[2], statistics=np.array([-3.0, 2.0, 0.0]))
    found[4] = changed(found[4], statistics=np.array([3.0, 900.0, 0.0]))
    whole = fold.add_all(model, _start(model), found)
    assert whole is not None
    snapshot, outcomes = whole
    folded, rejected = Outcome.FOLDED, Outcome.REJECTED
    assert outcomes == [folded, folded, rejected, folded, rejected]
    assert snapshot.payload.statistics[:2].tolist() == [9.0, 6.0]
    assert (snapshot.n_events, snapshot.counts.n_rejected, snapshot.frontier.positions[0]) == (6, 4, 10)


class _Narrow(Poisson):
    """Of at most five events."""

    def proper(self, statistics: Matrix) -> Flags:
        return super().proper(statistics) & (statistics[:, 1] <= 5)


def test_a_sum_outside_the_domain_is_left_to_the_fold_of_each() -> None:
    model = _Narrow("k")
    found = [_learned(model, np.ones((2, 1)), 2 * i, 0, None) for i in range(3)]
    assert fold.add_all(model, _start(model), found[:2]) is not None
    assert fold.add_all(model, _start(model), found) is None
