"""Increments from several records: whole, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.runtime.folding.parts import MAX_BYTES, OVERHEAD, Parts
from streaminfer.variational.increment import Layout
from streaminfer.wire import increments
from streaminfer.wire.errors import BadValue
from streaminfer.wire.increments import Part
from tests.wire.messages import increment

SIZE = 5


def _parts(base: float = 0.0, numbers: int = SIZE, **changes: Any) -> list[Part]:
    """An increment in parts of two numbers."""
    given = increment(statistics=np.arange(numbers) + base, **changes)
    return [increments.decode(record) for record in increments.encode(given, increments.ENVELOPE + 16)]


def _add(parts: Parts, given: list[Part]) -> list[list[float]]:
    made = [parts.add(part) for part in given]
    return [each.payload.statistics.tolist() for each in made if each is not None]


A, B = [0.0, 1.0, 2.0, 3.0, 4.0], [10.0, 11.0, 12.0, 13.0, 14.0]


def test_an_increment_comes_with_its_last_part() -> None:
    parts = Parts(Layout(SIZE))
    first, second, third = _parts()
    assert parts.add(first) is None
    assert parts.add(second) is None
    made = parts.add(third)
    assert made is not None
    assert made.payload.statistics.tolist() == A
    assert (made.provenance.writer, made.provenance.begin, made.provenance.end) == ("worker-1", 7, 12)


def test_an_increment_of_one_part_comes_at_once() -> None:
    one = increments.decode(increments.encode(increment(), 1 << 20)[0])
    assert _add(Parts(Layout(3)), [one, one]) == [[1.5, -2.25, 1e-300]] * 2


def test_writers_may_interleave() -> None:
    a, b = _parts(writer="a"), _parts(10.0, writer="b")
    assert _add(Parts(Layout(SIZE)), [a[0], b[0], a[1], b[1], b[2], a[2]]) == [B, A]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_with_a_part_missing_there_is_no_increment_but_the_next_is_whole(missing: int) -> None:
    a, b = _parts(), _parts(10.0, begin=12, end=17)
    del a[missing]
    assert _add(Parts(Layout(SIZE)), [*a, *b]) == [B]


def test_a_part_sent_twice_breaks_it_until_it_is_sent_again() -> None:
    first, second, third = _parts()
    assert _add(Parts(Layout(SIZE)), [first, second, second, third]) == []
    assert _add(Parts(Layout(SIZE)), [first, first, second, third]) == [A]
    assert _add(Parts(Layout(SIZE)), [first, second, first, second, third, third]) == [A]


def test_parts_of_different_increments_are_never_mixed() -> None:
    a, b = _parts(), _parts(10.0, begin=12, end=17)
    assert _add(Parts(Layout(SIZE)), [a[0], b[1], b[2]]) == []
    assert _add(Parts(Layout(SIZE)), [a[0], a[1], b[2]]) == []
    assert _add(Parts(Layout(SIZE)), [a[0], *b]) == [B]
    rescored = _parts(score=-9.0)
    assert _add(Parts(Layout(SIZE)), [a[0], rescored[1], rescored[2]]) == []


def test_more_numbers_than_the_model_has_are_refused_before_the_last_part() -> None:
    given = _parts(numbers=10)
    parts = Parts(Layout(SIZE))
    assert parts.add(given[0]) is None
    assert parts.add(given[1]) is None
    with pytest.raises(BadValue, match="48 bytes are not the 40 of 5 numbers"):
        parts.add(given[2])
    assert _add(parts, given[3:]) == []
    assert _add(parts, _parts()) == [A]


def test_uneven_parts_are_not_complete_before_the_last() -> None:
    """Nine tiny parts and a large one have all the bytes though ten more parts were announced."""
    common = {**_parts()[0].value, "parts": 20}
    parts = Parts(Layout(100))
    pieces = [bytes(64)] * 9 + [bytes(224)]
    for i, piece in enumerate(pieces):
        assert parts.add(Part({**common, "part": i, "statistics": piece})) is None


def test_fewer_numbers_than_the_model_has_are_refused() -> None:
    given = _parts(numbers=3)
    parts = Parts(Layout(SIZE))
    assert parts.add(given[0]) is None
    with pytest.raises(BadValue, match="24 bytes are not the 40 of 5 numbers"):
        parts.add(given[1])


def test_more_parts_than_numbers_are_refused() -> None:
    with pytest.raises(BadValue, match=r"parts must not exceed the 5 statistics \(got 6\)"):
        Parts(Layout(SIZE)).add(_parts(numbers=11)[0])


def test_only_so_many_unfinished_increments_are_held() -> None:
    parts = Parts(Layout(SIZE))
    oldest, newest = _parts(writer="oldest"), _parts(writer="newest")
    parts.add(oldest[0])
    for i in range(MAX_BYTES // (8 * SIZE + OVERHEAD) - 1):
        parts.add(_parts(writer=str(i))[0])
    parts.add(newest[0])
    assert _add(parts, oldest[1:]) == []
    assert _add(parts, newest[1:]) == [A]
