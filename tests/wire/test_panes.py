"""Panes in increments and on their own topic: they round-trip, and what cannot be is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streaminfer.runtime.folding.parts import Parts
from streaminfer.variational.forgetting.windows import MOST_PANES
from streaminfer.variational.increment import Layout, Pane
from streaminfer.wire import increments, panes, vectors
from streaminfer.wire.avro import DECLARED
from streaminfer.wire.errors import BadFrame, BadValue, WireError
from streaminfer.wire.panes import PanePlace, Shelf
from tests.wire.messages import FINGERPRINT, VALUES, increment

SIZE = len(VALUES)
PANES = {-7: Pane(1, VALUES), 0: Pane(2, 2 * VALUES), 2**40: Pane(3, 3 * VALUES)}


def _windowed(found: dict[int, Pane], max_bytes: int = 1 << 20, **changes: Any) -> list[increments.Part]:
    given = increment(**{"n_events": 6, "end": 20, "newest": 1.7e9 + 1 / 3, "panes": found, **changes})
    return [
        increments.decode(record) for record in increments.encode(given, max_bytes, layout=Layout(0, windowed=True))
    ]


@pytest.mark.parametrize("found", [{}, {5: Pane(1, VALUES)}, PANES, {i: Pane(1, VALUES) for i in range(MOST_PANES)}])
@pytest.mark.parametrize("max_bytes", [1 << 20, increments.ENVELOPE + 8])
def test_panes_of_increments_round_trip(found: dict[int, Pane], max_bytes: int) -> None:
    given = _windowed(found, max_bytes, n_events=100, end=200)
    parts = Parts(Layout(SIZE, windowed=True))
    made = [parts.add(part) for part in given]
    assert made[:-1] == [None] * (len(made) - 1)
    assert made[-1] is not None
    assert made[-1].payload.newest == 1.7e9 + 1 / 3
    assert made[-1].payload.statistics.tolist() == [0.0] * SIZE
    assert {i: (pane.n_events, pane.statistics.tolist()) for i, pane in made[-1].payload.panes.items()} == {
        i: (pane.n_events, pane.statistics.tolist()) for i, pane in found.items()
    }


def _row(index: float, count: float, first: float = 1.0) -> list[float]:
    return [index, count, first, 2.0, 3.0]


BAD: list[tuple[list[float], str]] = [
    ([1e9, *_row(0.5, 1)], "panes must have whole numbers in rising order (got [0.5])"),
    ([1e9, *_row(1e17, 1)], "panes must have whole numbers in rising order (got [1e+17])"),
    ([1e9, *_row(3, 1), *_row(3, 1)], "panes must have whole numbers in rising order (got [3.0, 3.0])"),
    ([1e9, *_row(3, 1), *_row(2, 1)], "panes must have whole numbers in rising order (got [3.0, 2.0])"),
    ([1e9, *_row(3, 0)], "panes must have one event or more each, together at most 3 (got [0.0])"),
    ([1e9, *_row(3, -1)], "panes must have one event or more each, together at most 3 (got [-1.0])"),
    ([1e9, *_row(3, 1.5)], "panes must have one event or more each, together at most 3 (got [1.5])"),
    ([1e9, *_row(3, 2), *_row(4, 2)], "panes must have one event or more each, together at most 3 (got [2.0, 2.0])"),
    ([2.6e11, *_row(3, 1)], "newest must be a time of the years 1 to 9999 (got 260000000000.0)"),
    ([math.nan, *_row(3, 1)], "a number is not finite"),
    ([1e9, *_row(3, 1, math.inf)], "a number is not finite"),
    ([1e9, *_row(3, 1), 7.0], "56 bytes are not the 48 of 6 numbers"),
    ([1e9, 3.0], "16 bytes are not the 8 of 1 numbers"),
    ([], "0 bytes are not the 8 of 1 numbers"),
    ([1e9, *(n for i in range(MOST_PANES + 1) for n in _row(i, 1))], f"panes must be at most {MOST_PANES} (got 67)"),
]


@pytest.mark.parametrize(("numbers", "text"), BAD, ids=[text[:40] for _, text in BAD])
def test_panes_of_increments_that_cannot_be_are_refused(numbers: list[float], text: str) -> None:
    (part,) = _windowed({}, n_events=3)
    value = {**part.value, "statistics": np.array(numbers, "<f8").tobytes()}
    with pytest.raises(BadValue) as caught:
        increments.assemble([increments.Part(value)], Layout(SIZE, windowed=True))
    assert str(caught.value) == text


def test_no_more_is_held_of_an_unfinished_increment_than_a_window_has() -> None:
    parts = Parts(Layout(SIZE, windowed=True))
    most = increments.most_numbers(Layout(SIZE, windowed=True))
    (part,) = _windowed({})
    piece = bytes(8 * (most // 2 + 1))
    assert parts.add(increments.Part({**part.value, "part": 0, "parts": 3, "statistics": piece})) is None
    with pytest.raises(BadValue, match="panes must be at most"):
        parts.add(increments.Part({**part.value, "part": 1, "parts": 3, "statistics": piece + bytes(400)}))


def _records(found: dict[PanePlace, Pane], max_bytes: int = 1 << 20, version: int = 4) -> list[tuple[bytes, bytes]]:
    return [
        record for place, pane in found.items() for record in panes.encode(place, pane, FINGERPRINT, version, max_bytes)
    ]


STORED = {PanePlace(0, 5): Pane(2, VALUES), PanePlace(0, 6): Pane(1, 2 * VALUES), PanePlace(3, -1): Pane(9, 3 * VALUES)}


@pytest.mark.parametrize("max_bytes", [1 << 20, panes.ENVELOPE + 8, panes.ENVELOPE + 20])
def test_stored_panes_round_trip_and_tombstones_take_them_away(max_bytes: int) -> None:
    shelf = Shelf(FINGERPRINT, SIZE, 100)
    for key, data in _records(STORED, max_bytes, version=3) + _records({PanePlace(0, 6): Pane(4, VALUES)}, max_bytes):
        assert len(data) <= max_bytes
        shelf.add(key, data)
    found = shelf.panes(4)
    assert {clock: {i: pane.n_events for i, pane in each.items()} for clock, each in found.items()} == {
        0: {5: 2, 6: 4}, 3: {-1: 9},
    }  # fmt: skip
    assert found[0][6].statistics.tolist() == VALUES.tolist()
    assert found[3][-1].statistics.tolist() == (3 * VALUES).tolist()
    gone = panes.keys(PanePlace(0, 5), SIZE, max_bytes)
    assert gone == [key for key, _ in _records({PanePlace(0, 5): STORED[PanePlace(0, 5)]}, max_bytes)]
    for key in gone:
        shelf.add(key, None)
    assert shelf.panes(4)[0].keys() == {6}


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 1000])
@pytest.mark.parametrize("piece_bytes", [8, 15, 16, 24, 1 << 20])
def test_keys_are_as_many_as_pieces(size: int, piece_bytes: int) -> None:
    assert vectors.n_pieces(size, piece_bytes) == len(vectors.split(np.zeros(size), piece_bytes))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"fingerprint": "x" * 1000}, f"fingerprint must be {FINGERPRINT} (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"clock": -1}, "part 0 of 1 of pane 5 cannot be"),
    ({"part": -1}, "part -1 of 1 of pane 5 cannot be"),
    ({"part": 1}, "part 1 of 1 of pane 5 cannot be"),
    ({"parts": 0}, "part 0 of 0 of pane 5 cannot be"),
    ({"parts": 10_001}, "part 0 of 10001 of pane 5 cannot be"),
    ({"pane": 2**60}, f"part 0 of 1 of pane {2**60} cannot be"),
    ({"n_events": 0}, "0 events of version 4 are not a pane"),
    ({"version": 0}, "2 events of version 0 are not a pane"),
    ({"statistics": bytes(32)}, "2 events of version 4 are not a pane"),
    ({"pane": 6}, "the key must be that of pane 6 (got b'0/5/0')"),
]


@pytest.mark.parametrize(("changes", "text"), WRONG, ids=lambda value: str(value)[:30])
def test_stored_panes_that_cannot_be_are_refused(changes: dict[str, Any], text: str) -> None:
    ((key, data),) = _records({PanePlace(0, 5): Pane(2, VALUES)})
    value = DECLARED.decode(panes.TOPIC, data)
    with pytest.raises(BadValue) as caught:
        Shelf(FINGERPRINT, SIZE, 100).add(key, DECLARED.encode(panes.TOPIC, {**value, **changes}))
    assert str(caught.value) == text
    Shelf(FINGERPRINT, SIZE, 100).add(key, data)


def test_bytes_that_are_no_pane_are_refused() -> None:
    ((key, data),) = _records({PanePlace(0, 5): Pane(2, VALUES)})
    shelf = Shelf(FINGERPRINT, SIZE, 100)
    for each in (b"", b"\x00", data[:-1], data + b"\x00", b"\x01" + data[1:], bytes(2 << 20)):
        with pytest.raises(WireError):
            shelf.add(key, each)
    with pytest.raises(BadFrame, match="schema id 2 is not the 6 of this topic"):
        shelf.add(key, data[:4] + b"\x02" + data[5:])


def test_a_pane_that_is_not_whole_or_too_new_is_refused() -> None:
    first, second = _records({PanePlace(0, 5): Pane(2, VALUES)}, panes.ENVELOPE + 16)
    newer = _records({PanePlace(0, 5): Pane(3, VALUES)}, panes.ENVELOPE + 16, version=5)
    for given, version, text in [
        ([first], 4, "pane 5 of clock 0 is not whole"),
        ([second], 4, "pane 5 of clock 0 is not whole"),
        ([first, newer[1]], 5, "pane 5 of clock 0 is not whole"),
        (newer, 4, "pane 5 of clock 0 is of the later version 5"),
    ]:
        shelf = Shelf(FINGERPRINT, SIZE, 100)
        for key, data in given:
            shelf.add(key, data)
        with pytest.raises(BadValue) as caught:
            shelf.panes(version)
        assert str(caught.value) == text


def test_only_so_many_records_are_held() -> None:
    shelf = Shelf(FINGERPRINT, SIZE, 3)
    for i in range(9):
        ((key, data),) = _records({PanePlace(0, i % 3): Pane(1, VALUES)})
        shelf.add(key, data)
    ((key, data),) = _records({PanePlace(0, 7): Pane(1, VALUES)})
    with pytest.raises(BadValue, match="more than 3 records of live panes"):
        shelf.add(key, data)


@pytest.mark.parametrize("max_bytes", [1 << 20, panes.ENVELOPE + 8])
def test_one_pane_of_a_shelf(max_bytes: int) -> None:
    """The newest of its place, in however many records; batches may have no event."""
    shelf = Shelf(FINGERPRINT, SIZE, 100, least=0)
    for place, pane, version in [
        (PanePlace(2, 7), Pane(4, VALUES), 1),
        (PanePlace(2, 8), Pane(0, 0 * VALUES), 1),
        (PanePlace(2, 7), Pane(5, 2 * VALUES), 3),
    ]:
        for record in panes.encode(place, pane, FINGERPRINT, version, max_bytes):
            shelf.add(*record)
    found, empty = shelf.pane(PanePlace(2, 7)), shelf.pane(PanePlace(2, 8))
    assert found is not None
    assert (found.n_events, found.statistics.tolist()) == (5, (2 * VALUES).tolist())
    assert empty is not None
    assert (empty.n_events, empty.statistics.tolist()) == (0, [0.0] * SIZE)
    assert shelf.pane(PanePlace(2, 9)) is None
    assert shelf.pane(PanePlace(7, 2)) is None


@pytest.mark.parametrize("gone", [1, 2])
def test_one_pane_that_is_not_whole(gone: int) -> None:
    shelf = Shelf(FINGERPRINT, SIZE, 100)
    records = panes.encode(PanePlace(2, 7), Pane(4, VALUES), FINGERPRINT, 1, panes.ENVELOPE + 8)
    assert len(records) == 3
    for i, record in enumerate(records):
        if i != gone:
            shelf.add(*record)
    with pytest.raises(BadValue, match="pane 7 of clock 2 is not whole"):
        shelf.pane(PanePlace(2, 7))
    shelf.add(*panes.encode(PanePlace(2, 7), Pane(4, VALUES), FINGERPRINT, 2, panes.ENVELOPE + 8)[gone])
    with pytest.raises(BadValue, match="pane 7 of clock 2 is not whole"):
        shelf.pane(PanePlace(2, 7))
    shelf.add(records[0][0], None)
    assert shelf.pane(PanePlace(2, 7)) is None
