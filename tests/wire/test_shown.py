"""What a manifest says of draws: it round-trips, and what cannot be is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streaminfer.sampling.pooled.pooling import MOST_RETAINED
from streaminfer.sampling.pooled.shown import Combination, Sampled, Shown
from streaminfer.wire.errors import BadValue
from streaminfer.wire.sampled import shown as wire
from tests.wire.chain_messages import SIZE, VALUES, shown

GIVEN = Sampled(VALUES, shown())
COMBINED = Combination(7, "average", "full", True, 10_000, 0.4, 0.7, -12.5, 0.01, 0.25, ("parts disagree",))


def fields(**changes: Any) -> dict[str, Any]:
    return {**wire.fields(GIVEN), **changes}


def first(of: str, **changes: Any) -> dict[str, Any]:
    """The fields with something changed in the first of its segments, subposteriors or chains."""
    one, *others = wire.fields(GIVEN)[of]
    return {of: [{**one, **changes}, *others]}


def combined(**changes: Any) -> dict[str, Any]:
    """A combination with something changed in it."""
    return {"combined": {**COMBINED._asdict(), **changes}}


@pytest.mark.parametrize(
    "given",
    [
        Sampled(VALUES, shown(combined=COMBINED)),
        GIVEN,
        Sampled(np.empty((0, SIZE))),
        Sampled(VALUES, shown(acceptance=None, chains=())),
    ],
)
def test_what_is_shown_round_trips(given: Sampled) -> None:
    found = wire.sampled(wire.fields(given), given.draws.ravel(), SIZE)
    assert found.shown == given.shown
    np.testing.assert_array_equal(found.draws, given.draws)
    assert found.draws.shape == given.draws.shape


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"segment": -2}, "segment must be -1 or more (got -2)"),
    ({"segment": -1}, "n_draws must be 0 if no segment is shown (got 4000)"),
    ({"n_chains": -1}, "n_chains must be 0 to 2^53 (got -1)"),
    ({"n_chains": 3}, "n_chains must be the 2 chains (got 3)"),
    ({"n_draws": -1}, "n_draws must be 0 to 2^53 (got -1)"),
    ({"n_retained": -1}, "n_retained must be 0 to 2^53 (got -1)"),
    ({"n_retained": 3}, "n_retained must be of 3 numbers each (got 6)"),
    ({"n_retained": 1001}, "n_retained must be 0 to 1000 (got 1001)"),
    ({"size": math.nan}, "size must be 0 or more, and finite (got nan)"),
    ({"noise": -1.0}, "noise must be 0 or more, and finite (got -1.0)"),
    ({"acceptance": 1.5}, "acceptance must be 0 to 1 (got 1.5)"),
    ({"acceptance": math.nan}, "acceptance must be 0 or more, and finite (got nan)"),
    ({"fraction": math.inf}, "fraction must be 0 or more, and finite (got inf)"),
    ({"n_accepted": 65}, "n_accepted must be at most the 64 proposals (got 65)"),
    ({"n_proposed": -1}, "n_proposed must be 0 to 2^53 (got -1)"),
    ({"n_likelihood": -1}, "n_likelihood must be 0 to 2^53 (got -1)"),
    ({"n_gradient": -1}, "n_gradient must be 0 to 2^53 (got -1)"),
    ({"n_setup": -1}, "n_setup must be 0 to 2^53 (got -1)"),
    ({"n_undone": -1}, "n_undone must be 0 to 2^53 (got -1)"),
    ({"n_read": -1}, "n_read must be 0 to 2^53 (got -1)"),
    ({"n_scored": -1}, "n_scored must be 0 to 2^53 (got -1)"),
    (first("segments", subposterior=-1), "segments must have different indices from 0 in rising order (got [-1, 1])"),
    (first("segments", subposterior=1), "segments must have different indices from 0 in rising order (got [1, 1])"),
    (first("segments", number=-1), "number must be 0 to 2^53 (got -1)"),
    (first("segments", fixed_at=-1), "fixed_at must be 0 to 2^53 (got -1)"),
    (first("segments", cut_off=math.nan), "cut_off must be a time of the years 1 to 9999, or null (got nan)"),
    (first("segments", cut_off=1e12), "cut_off must be a time of the years 1 to 9999, or null (got 1000000000000.0)"),
    (
        first("segments", spans=[{"partition": 0, "start": 5, "end": 4}]),
        "spans must have 0 <= start <= end <= 2^53 (got (5, 4))",
    ),
    (
        first("segments", spans=[{"partition": 3, "start": 0, "end": 4}]),
        "spans must have partitions of one subposterior each (got [3])",
    ),
    (
        first("subposteriors", subposterior=2),
        "subposteriors must have different indices from 0 in rising order (got [2, 1])",
    ),
    (first("subposteriors", segment=-2), "segment must be -1 or more (got -2)"),
    (first("subposteriors", n_events=-1), "n_events must be 0 to 2^53 (got -1)"),
    (first("subposteriors", n_draws=-1), "n_draws must be 0 to 2^53 (got -1)"),
    (first("subposteriors", n_effective=math.inf), "n_effective must be 0 or more, and finite (got inf)"),
    (first("subposteriors", why="x" * 301), "why must have at most 300 characters (got 'xxxxxxxxxxxxxxxxxxxx')"),
    (first("subposteriors", steps=[0, -1]), "steps must be 0 to 2^53 (got -1)"),
    (combined(round=-1), "round must be 0 to 2^53 (got -1)"),
    (combined(n_proposals=-1), "n_proposals must be 0 to 2^53 (got -1)"),
    (combined(by="x" * 301), "by must have at most 300 characters (got 'xxxxxxxxxxxxxxxxxxxx')"),
    (combined(weights="x" * 301), "weights must have at most 300 characters (got 'xxxxxxxxxxxxxxxxxxxx')"),
    (combined(k_hat=math.nan), "k_hat must be finite, or null (got nan)"),
    (combined(threshold=math.inf), "threshold must be finite, or null (got inf)"),
    (combined(log_evidence=math.nan), "log_evidence must be finite, or null (got nan)"),
    (combined(log_evidence_error=math.nan), "log_evidence_error must be finite, or null (got nan)"),
    (combined(ambiguous=1.1), "ambiguous must be 0 to 1 (got 1.1)"),
    (combined(warnings=["x"] * 21), "warnings must be at most 20 (got 21)"),
    (combined(warnings=["x" * 301]), "warnings must have at most 300 characters (got 'xxxxxxxxxxxxxxxxxxxx')"),
    (first("chains", unit=5), "chains must have different indices from 0 in rising order (got [5, 5])"),
    (
        first("chains", phase="x"),
        "phase must be one of waiting, setup, warmup, draws, done, cut (got 'x')",
    ),
    (first("chains", step=-1), "step must be 0 to 2^53 (got -1)"),
    (first("chains", read_to=-1), "read_to must be 0 to 2^53 (got -1)"),
    (first("chains", n_retained=-1), "n_retained must be 0 to 2^53 (got -1)"),
    (first("chains", n_retained=2), "n_retained must be at most the 2 of all together (got 3)"),
]


@pytest.mark.parametrize(("changes", "text"), WRONG, ids=lambda value: str(value)[:40])
def test_what_cannot_be_shown_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(BadValue) as caught:
        wire.sampled(fields(**changes), VALUES.ravel(), SIZE)
    assert str(caught.value) == text


def test_every_field_is_refused_in_one_way_at_least() -> None:
    """But those that are true or false."""
    assert {name for changes, _ in WRONG for name in changes} == fields().keys() - {"complete", "cut"}


def test_draws_of_many_numbers_are_few() -> None:
    size = 1 << 17
    few = np.zeros((8, size))
    given = Sampled(few, Shown(segment=0))
    assert wire.sampled(wire.fields(given), few.ravel(), size).draws.shape == few.shape
    with pytest.raises(BadValue, match="n_retained must be 0 to 8"):
        wire.sampled({**wire.fields(given), "n_retained": 9}, few.ravel(), size)
    most = np.zeros((MOST_RETAINED, 2))
    assert len(wire.sampled(wire.fields(Sampled(most)), most.ravel(), 2).draws) == MOST_RETAINED
