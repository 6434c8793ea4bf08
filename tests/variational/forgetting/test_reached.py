"""What time a partition has reached: one event alone hardly moves it, and cuts do not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaminfer.variational.forgetting.reached import Reached, believe

NOW = 1_700_000_000.0
HOUR, DAY = 3600.0, 86_400.0


def believed(*times: float, before: Reached = (NOW, NOW, 0.0)) -> list[float]:
    """The times as they count, in hours after NOW."""
    found = believe(NOW + HOUR * np.array(times, dtype=float), before)
    return ((found.times - NOW) / HOUR).tolist()  # type: ignore[no-any-return]


def test_times_in_order_or_late_are_as_they_are() -> None:
    assert believed(0, 1, 0.5, -1000, 2, 2.9) == [0, 1, 0.5, -1000, 2, 2.9]


def test_one_event_of_next_month_counts_as_of_now() -> None:
    assert believed(0, 0.1, 720, 0.2, 0.3, 720, 0.4) == [0, 0.1, 0.1, 0.2, 0.3, 0.3, 0.4]


def test_after_a_silence_only_the_first_event_counts_as_of_before() -> None:
    assert believed(0, 24, 24.1, 24.2, 25) == [0, 0, 24.1, 24.2, 25]


def test_a_wrong_event_in_a_silence_is_no_witness_of_more_than_the_next_says() -> None:
    assert believed(0, 720, 24, 24.1) == [0, 0, 24, 24.1]
    assert believed(0, 24, 720, 24.1) == [0, 0, 24, 24.1]


def test_where_silences_are_usual_only_the_first_counts_as_of_before() -> None:
    """Twice the longest one is believed from then on; what is beyond that is not, and nor is a month."""
    assert believed(0, 10, 20, 30, 40) == [0, 0, 20, 30, 40]
    assert believed(0, 10, 20, 39, 40) == [0, 0, 20, 39, 40]
    assert believed(0, 10, 20, 720, 40, 41) == [0, 0, 20, 20, 40, 41]
    assert believed(0, 10, 20, 45, 46, 95) == [0, 0, 20, 20, 46, 95]


def test_of_sparse_events_few_are_not_as_they_say() -> None:
    """Gaps of six hours in the mean: at most 4 of 3,000."""
    times, state, wrong = np.cumsum(np.random.default_rng(0).exponential(6 * HOUR, 3000)), Reached(), 0
    for part in np.split(times, range(256, 3000, 256)):
        found = believe(part, state)
        wrong, state = wrong + np.count_nonzero(found.times != part), found.state
    assert 0 < wrong <= 4


def test_two_in_a_row_are_believed() -> None:
    """What a whole producer with a wrong clock does: later events of right clocks are late."""
    assert believed(0, 720, 720.5, 1) == [0, 0, 720.5, 1]


def test_a_first_event_is_believed_unless_its_time_has_not_come() -> None:
    assert believed(-1e4, -1e4 + 0.5, before=()) == [-1e4, -1e4 + 0.5]
    assert believed(720, 0.1, before=(NOW,)) == [0, 0.1]
    assert believed(0.9, 0.1, before=(NOW,)) == [0.9, 0.1]
    assert believed(-500, 0.1, -499, before=(NOW,)) == [-500, -500, -499]


def test_the_second_series_is_apart() -> None:
    found = believe(np.array([NOW + DAY]), (NOW, NOW, 0.0, NOW + DAY, NOW + DAY, 0.0), 1)
    assert (found.times.tolist(), found.n_ahead) == ([NOW + DAY], 0)


@given(
    st.lists(st.sampled_from([0.0, 0.3, 0.9, 1.5, -5.0, 20.0, 24.0, 24.5, 720.0, 721.5]), min_size=1, max_size=30),
    st.integers(0, 30),
    st.sampled_from([(), (NOW,), (NOW, NOW, 0.0), (NOW, NOW + DAY, 0.0), (NOW, NOW, 5 * HOUR)]),
)
def test_where_it_is_cut_does_not_matter(hours: list[float], cut: int, before: Reached) -> None:
    times = NOW + HOUR * np.array(hours)
    whole = believe(times, before)
    if not 0 < cut < len(times):
        return
    first = believe(times[:cut], before)
    second = believe(times[cut:], first.state)
    assert [*first.times, *second.times] == whole.times.tolist()
    assert (*second.state, first.n_ahead + second.n_ahead) == whole[1:]


@given(st.lists(st.floats(0, 0.5), min_size=3, max_size=20), st.integers(0, 19), st.floats(1.5001, 1e6))
def test_one_wrong_time_moves_no_other(hours: list[float], at: int, wrong: float) -> None:
    """At any place but the very beginning, as nothing can be known there."""
    times = [0.0, *hours]
    place = 1 + at % len(hours)
    with_it = believed(*times[:place], wrong, *times[place:])
    assert with_it[:place] + with_it[place + 1 :] == pytest.approx(believed(*times), abs=1e-6)
    assert with_it[place] <= 1.0
