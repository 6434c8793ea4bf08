"""How a partition is cut into minibatches."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaminfer.bus.protocol import Partition, Record, Slice
from streaminfer.runtime.reading import tape as tape_module
from streaminfer.runtime.reading.tape import Tape

EVENTS = Partition("demo.events", 3)


def _slice(begin: int, end: int, holes: tuple[int, ...] = (), size: int = 1) -> Slice:
    records = tuple(Record(EVENTS, at, 0, None, b"x" * size) for at in range(begin, end) if at not in holes)
    return Slice(EVENTS, begin, end, records)


def _filled(end: int, begin: int = 0, holes: tuple[int, ...] = (), size: int = 1, now: float = 0.0) -> Tape:
    tape = Tape(EVENTS, begin)
    tape.extend(_slice(begin, end, holes, size), now)
    return tape


def _cuts(tape: Tape, minibatch: int, mark: int | None = None) -> list[tuple[int, int]]:
    found = []
    while batch := tape.cut(minibatch, 0, 0.0, mark):
        found.append((batch.begin, batch.end))
    return found


def test_cuts_are_at_multiples_wherever_the_tape_begins() -> None:
    assert _cuts(_filled(17), 5) == [(0, 5), (5, 10), (10, 15)]
    assert _cuts(_filled(17, begin=3), 5) == [(3, 5), (5, 10), (10, 15)]
    assert _cuts(_filled(4), 5) == []


def test_a_minibatch_has_the_records_below_its_end() -> None:
    batch = _filled(10, holes=(1, 4, 5)).cut(5, 0, 0.0)
    assert batch is not None
    assert batch.partition == EVENTS
    assert [record.offset for record in batch.records] == [0, 2, 3]


def test_holes_alone_make_a_minibatch_without_records() -> None:
    tape = _filled(10, holes=tuple(range(10)))
    batch = tape.cut(5, 0, 0.0)
    assert batch is not None
    assert (batch.begin, batch.end, batch.records) == (0, 5, [])
    assert tape.begin == 5


def test_lingering_cuts_early_and_the_next_still_ends_at_the_multiple() -> None:
    tape = _filled(3, now=100.0)
    assert tape.due_in(2.0, 101.0) == 1.0
    assert tape.cut(5, 2.0, 101.9) is None
    batch = tape.cut(5, 2.0, 102.0)
    assert batch is not None
    assert (batch.begin, batch.end) == (0, 3)
    assert tape.due_in(2.0, 102.0) == math.inf
    tape.extend(_slice(3, 12), 110.0)
    found = [tape.cut(5, 2.0, 110.0) for _ in range(3)]
    assert [(batch.begin, batch.end) for batch in found if batch] == [(3, 5), (5, 10)]
    assert tape.due_in(2.0, 110.5) == 1.5
    assert tape.due_in(2.0, 200.0) == 0.0


def test_lingering_counts_from_the_first_of_what_waits() -> None:
    tape = _filled(1, now=100.0)
    tape.extend(_slice(1, 2), 101.5)
    assert tape.cut(5, 2.0, 102.0) is not None


def test_zero_never_lingers() -> None:
    tape = _filled(3, now=0.0)
    assert tape.due_in(0, 1e9) == math.inf
    assert tape.cut(5, 0, 1e9) is None


def test_a_mark_cuts_there_and_beyond_it_multiples_count_again() -> None:
    tape = _filled(7)
    assert _cuts(tape, 5, mark=7) == [(0, 5), (5, 7)]
    tape.extend(_slice(7, 15), 0.0)
    assert _cuts(tape, 5, mark=7) == [(7, 10), (10, 15)]
    assert _cuts(_filled(6), 5, mark=7) == [(0, 5)]
    assert _cuts(_filled(3), 5, mark=0) == []


def test_flush_gives_all_that_is_there() -> None:
    tape = _filled(8)
    assert _cuts(tape, 5) == [(0, 5)]
    batch = tape.flush(0.0)
    assert batch is not None
    assert (batch.begin, batch.end, len(batch.records)) == (5, 8, 3)
    assert tape.flush(0.0) is None


def test_a_slice_that_does_not_continue_is_refused() -> None:
    tape = _filled(4)
    for begin in (3, 5):
        with pytest.raises(ValueError, match=f"a slice from {begin} does not continue a tape to 4"):
            tape.extend(_slice(begin, 9), 0.0)


def test_reached_forgets_what_the_frontier_has_passed() -> None:
    tape = Tape(EVENTS, 0)
    tape.ahead.extend([5, 10, 15])
    tape.reached(4)
    assert list(tape.ahead) == [5, 10, 15]
    tape.reached(12)
    assert list(tape.ahead) == [15]


def test_large_events_are_cut_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape_module, "MAX_BYTES", 10)
    assert _cuts(_filled(9, size=4), 100) == [(0, 3), (3, 6), (6, 9)]
    assert _cuts(_filled(8, size=5), 3) == [(0, 2), (2, 3), (3, 5), (5, 6), (6, 8)]
    assert _cuts(_filled(2, size=100), 100) == [(0, 1), (1, 2)]


@settings(max_examples=300, deadline=None, database=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=30),
    st.integers(1, 9),
    st.lists(st.integers(0, 30), max_size=6),
    st.sets(st.integers(0, 30)),
)
def test_with_linger_zero_boundaries_depend_on_positions_alone(
    sizes: list[int], minibatch: int, arrivals: list[int], holes: set[int]
) -> None:
    """However the records arrive, and whatever cut a replay starts from, the cuts are the same."""
    end = len(sizes)
    whole = tuple(Record(EVENTS, at, 0, None, b"x" * sizes[at]) for at in range(end) if at not in holes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tape_module, "MAX_BYTES", 12)

        def replay(begin: int, stops: list[int]) -> list[tuple[int, int]]:
            tape, found = Tape(EVENTS, begin), []
            for stop in [*stops, end]:
                records = tuple(record for record in whole if tape.end <= record.offset < stop)
                tape.extend(Slice(EVENTS, tape.end, stop, records), 0.0)
                found += _cuts(tape, minibatch)
            return found

        at_once = replay(0, [])
        assert replay(0, sorted(stop for stop in arrivals if stop < end)) == at_once
        for i, (begin, _) in enumerate(at_once):
            assert replay(begin, sorted(stop for stop in arrivals if begin < stop < end)) == at_once[i:]


def test_what_a_cut_leaves_waits_from_then_on() -> None:
    tape = _filled(7, now=100.0)
    assert tape.cut(5, 2.0, 101.0) is not None
    assert tape.due_in(2.0, 101.0) == 2.0
    assert tape.cut(5, 2.0, 102.9) is None
    assert tape.cut(5, 2.0, 103.0) is not None


def test_whole_minibatches_come_as_one_up_to_so_many_bytes() -> None:
    def spans(tape: Tape, merged: int, mark: int | None = None, most: int | None = None) -> list[tuple[int, int]]:
        found = []
        while batch := tape.cut(5, 0, 0.0, mark, merged, most):
            assert all(batch.begin <= record.offset < batch.end for record in batch.records)
            found.append((batch.begin, batch.end))
        return found

    assert spans(_filled(17), 100) == [(0, 15)]
    assert spans(_filled(17, begin=3), 100) == [(3, 15)]
    assert spans(_filled(4), 100) == []
    assert spans(_filled(27), 12) == [(0, 10), (10, 20), (20, 25)]
    assert spans(_filled(12, size=50), 12) == [(0, 5), (5, 10)], "one minibatch may have more"
    assert spans(_filled(17), 100, mark=8) == [(0, 8), (8, 15)]
    assert spans(_filled(32, begin=3), 100, most=14) == [(3, 15), (15, 25), (25, 30)]
    assert spans(_filled(17), 100, most=2) == [(0, 5), (5, 10), (10, 15)], "one minibatch may have more"
    assert spans(_filled(30, holes=tuple(range(2, 29))), 2) == [(0, 5), (5, 30)], "holes have no bytes"


def test_what_lingers_after_merged_minibatches_is_cut_by_itself() -> None:
    tape = _filled(17, now=100.0)
    first = tape.cut(5, 2.0, 101.0, None, 100)
    assert first is not None
    assert (first.begin, first.end) == (0, 15)
    assert tape.cut(5, 2.0, 102.9, None, 100) is None
    rest = tape.cut(5, 2.0, 103.0, None, 100)
    assert rest is not None
    assert (rest.begin, rest.end) == (15, 17)


def test_merged_minibatches_respect_the_most_bytes_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape_module, "MAX_BYTES", 10)
    tape = _filled(20, size=2)
    found = [(batch.begin, batch.end) for batch in iter(lambda: tape.cut(2, 0, 0.0, None, 1000), None)]
    assert found == [(0, 4), (4, 8), (8, 12), (12, 16), (16, 20)]
