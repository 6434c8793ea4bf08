"""What time a partition has reached: an event alone moves it by an hour at most, and cuts do not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaminfer.variational.reached import Believed, Reached, believe

NOW = 1_700_000_000.0
HOUR, DAY = 3600.0, 86_400.0


def after(found: Believed) -> Reached:
    return (found.reached, found.ahead)


def believed(*times: float, before: Reached = (NOW, NOW)) -> list[float]:
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


def test_events_further_apart_than_an_hour_are_one_behind() -> None:
    assert believed(0, 10, 20, 30, 40) == [0, 0, 10, 20, 30]


def test_two_in_a_row_are_believed() -> None:
    """What a whole producer with a wrong clock does: later events of right clocks are late."""
    assert believed(0, 720, 720.5, 1) == [0, 0, 720.5, 1]


def test_a_first_event_is_believed_unless_its_time_has_not_come() -> None:
    assert believed(-1e4, -1e4 + 0.5, before=()) == [-1e4, -1e4 + 0.5]
    assert believed(720, 0.1, before=(NOW,)) == [0, 0.1]
    assert believed(0.9, 0.1, before=(NOW,)) == [0.9, 0.1]
    assert believed(-500, 0.1, -499, before=(NOW,)) == [-500, -500, -499]


def test_the_second_series_is_apart() -> None:
    found = believe(np.array([NOW + DAY]), (NOW, NOW, NOW + DAY, NOW + DAY), 1)
    assert (found.times.tolist(), found.n_ahead) == ([NOW + DAY], 0)


@given(
    st.lists(st.sampled_from([0.0, 0.3, 0.9, 1.5, -5.0, 20.0, 24.0, 24.5, 720.0, 721.5]), min_size=1, max_size=30),
    st.integers(0, 30),
    st.sampled_from([(), (NOW,), (NOW, NOW), (NOW, NOW + DAY)]),
)
def test_where_it_is_cut_does_not_matter(hours: list[float], cut: int, before: Reached) -> None:
    times = NOW + HOUR * np.array(hours)
    whole = believe(times, before)
    if not 0 < cut < len(times):
        return
    first = believe(times[:cut], before)
    second = believe(times[cut:], after(first))
    assert [*first.times, *second.times] == whole.times.tolist()
    assert (second.reached, second.ahead, first.n_ahead + second.n_ahead) == whole[1:]


@given(st.lists(st.floats(0, 0.5), min_size=3, max_size=20), st.integers(0, 19), st.floats(1.5001, 1e6))
def test_one_wrong_time_moves_no_other(hours: list[float], at: int, wrong: float) -> None:
    """Wherever it is but at the very beginning, where nobody can know."""
    times = [0.0, *hours]
    place = 1 + at % len(hours)
    with_it = believed(*times[:place], wrong, *times[place:])
    assert with_it[:place] + with_it[place + 1 :] == pytest.approx(believed(*times), abs=1e-6)
    assert with_it[place] <= 1.0
