"""When the next segment is due, which positions it has, and what is lost in between."""

from __future__ import annotations

import pytest

from streaminfer.sampling import segments
from streaminfer.sampling.segments import Rule, Segment
from streaminfer.sampling.units import Span

BEFORE = Segment(3, (Span(0, 0, 60), Span(1, 0, 40)))


def spans(*ends: int) -> tuple[Span, ...]:
    return tuple(Span(partition, 0, end) for partition, end in enumerate(ends))


def test_a_subposterior_has_every_jth_partition() -> None:
    starts, ends = dict.fromkeys(range(5), 0), {i: 10 + i for i in range(5)}
    assert segments.spans_of(starts, ends, (0, 1)) == tuple(Span(i, 0, 10 + i) for i in range(5))
    assert segments.spans_of(starts, ends, (1, 2)) == (Span(1, 0, 11), Span(3, 0, 13))


def test_a_window_has_the_last_positions_of_each_partition() -> None:
    assert segments.spans_of({0: 0, 1: 95}, {0: 100, 1: 100}, (0, 1), 10) == (Span(0, 90, 100), Span(1, 95, 100))
    assert segments.spans_of({0: 0}, {0: 4}, (0, 1), 10) == (Span(0, 0, 4),)


@pytest.mark.parametrize(
    ("rule", "ends", "seconds", "due"),
    [
        (Rule(growth=1.5), (60, 40), 1e9, False),
        (Rule(growth=1.5), (80, 69), 0, False),
        (Rule(growth=1.5), (80, 70), 0, True),
        (Rule(growth=1.5), (60, 90), 0, True),
        (Rule(events=10), (60, 49), 0, False),
        (Rule(events=10), (65, 45), 0, True),
        (Rule(seconds=30), (61, 40), 29.9, False),
        (Rule(seconds=30), (61, 40), 30.0, True),
        (Rule(seconds=30), (60, 40), 1e9, False),
        (Rule(growth=1.5, window=20), (69, 49), 0, False),
        (Rule(growth=1.5, window=20), (70, 40), 0, True),
    ],
)
def test_a_segment_is_due_by_its_rule_and_never_without_a_new_event(
    rule: Rule, ends: tuple[int, ...], seconds: float, due: bool
) -> None:
    assert segments.is_due(BEFORE, spans(*ends), rule, seconds) == due


def test_a_partition_that_is_new_counts_from_its_start() -> None:
    grown = (*spans(60, 40), Span(2, 5, 15))
    assert segments.new_positions(BEFORE, grown) == {0: 0, 1: 0, 2: 10}


def test_what_retention_removes_is_lost_from_a_growing_segment_and_from_a_window_only_unread() -> None:
    starts = {0: 70, 1: 10}
    assert segments.n_lost(BEFORE, starts, forgotten=False) == 70 + 10
    assert segments.n_lost(BEFORE, starts, forgotten=True) == 10
    assert segments.n_lost(None, starts, forgotten=False) == 0
