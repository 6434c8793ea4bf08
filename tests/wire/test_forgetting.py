"""What forgetting adds to increments and snapshots, and that it adds nothing if nothing is forgotten."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streaminfer.variational.forgetting.decay import Clock
from streaminfer.variational.increment import Layout
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import increments, snapshots
from streaminfer.wire.errors import BadValue
from streaminfer.wire.snapshots import Assembler
from tests.wire.messages import ABOUT, FINGERPRINT, NATURAL, VALUES, increment, snapshot, snapshot_record

INCREMENT = bytes.fromhex(
    "0000000008203031323334353637383961626364656610776f726b65722d311664656d6f2e6576656e747304000e18060202080000000000"
    "000ac00000000230000000000000f83f00000000000002c059f3f8c21f6ea501"
)
SNAPSHOT = bytes.fromhex(
    "00000000110c0050000000000000f83f00000000000002c059f3f8c21f6ea50100000000000008400000000000001040020864656d6f2030"
    "3132333435363738396162636465660e706f6973736f6e0a67616d6d61067376620a6578616374f6a1abfef9622ac801020406080a000000"
    "00000029c00404001401010100068080808080400101010000020c000600000000000000000000000000"
)
"""As they are without forgetting, without keys, without draws and in one pass."""


def test_without_forgetting_records_are_what_they_were() -> None:
    assert increments.encode(increment(), 1 << 20) == [INCREMENT]
    assert [data for _, data in snapshots.encode(snapshot(), NATURAL, ABOUT, 1 << 20)] == [SNAPSHOT]


@pytest.mark.parametrize("most_clocks", [0, 1, 4096])
def test_older_records_are_read(most_clocks: int) -> None:
    found = Assembler(FINGERPRINT, 3, most_clocks=most_clocks).add(SNAPSHOT)
    assert found is not None
    assert (found.n_events, found.n_effective, found.payload.clocks) == (100, 100, {})
    assert np.array_equal(found.payload.statistics, VALUES)
    assert increments.assemble([increments.decode(INCREMENT)], Layout(3)).n_events == 3


@pytest.mark.parametrize("max_bytes", [1 << 20, increments.ENVELOPE + 8])
def test_times_of_increments_round_trip(max_bytes: int) -> None:
    given = increment(n_effective=2.25, newest=1.7e9 + 1 / 3)
    records = increments.encode(given, max_bytes, layout=Layout(0, timed=True))
    found = increments.assemble([increments.decode(record) for record in records], Layout(3, timed=True))
    assert (found.payload.n_effective, found.payload.newest, found.n_events) == (2.25, 1.7e9 + 1 / 3, 3)
    assert np.array_equal(found.payload.statistics, VALUES)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"n_effective": 0.5}, "n_effective must be at least 1 and at most the 3 events, if there are any (got 0.5)"),
    ({"n_effective": 3.1}, "n_effective must be at least 1 and at most the 3 events, if there are any (got 3.1)"),
    ({"n_effective": -1.0, "n_events": 0}, "n_effective must be at least 1 and at most the 0 events, if there are any "
     "(got -1.0)"),
    ({"newest": 2.6e11}, "newest must be a time of the years 1 to 9999 (got 260000000000.0)"),
    ({"newest": -7e10}, "newest must be a time of the years 1 to 9999 (got -70000000000.0)"),
    ({"newest": math.inf}, "a number is not finite"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), BAD)
def test_times_out_of_bounds_are_refused(changes: dict[str, Any], text: str) -> None:
    given = increment(**{"n_effective": 2.0, "newest": 1e9, **changes})
    record = increments.encode(given, 1 << 20, layout=Layout(0, timed=True))[0]
    with pytest.raises(BadValue) as caught:
        increments.assemble([increments.decode(record)], Layout(3, timed=True))
    assert str(caught.value) == text


def test_times_are_where_they_belong_or_it_is_no_increment() -> None:
    timed, plain = (
        increments.encode(increment(n_effective=2.0), 1 << 20, layout=Layout(0, timed=timed))[0]
        for timed in (True, False)
    )
    for record, expected in [(timed, False), (plain, True)]:
        with pytest.raises(BadValue, match="bytes are not the"):
            increments.assemble([increments.decode(record)], Layout(3, timed=expected))


def _clocks(*indices: int) -> dict[int, Clock]:
    return {i: Clock(VALUES * (i + 1), 10.5 + i, 1.7e9 + i) for i in indices}


def _same(found: Snapshot | None, given: Snapshot) -> None:
    assert found is not None
    assert np.array_equal(found.payload.statistics, given.payload.statistics)
    assert found.payload.clocks.keys() == given.payload.clocks.keys()
    for index, clock in given.payload.clocks.items():
        assert np.array_equal(found.payload.clocks[index].statistics, clock.statistics)
        assert found.payload.clocks[index][1:] == clock[1:]
    assert found.n_effective == given.n_effective


@pytest.mark.parametrize("max_bytes", [1 << 20, snapshots.ENVELOPE + 16])
@pytest.mark.parametrize("indices", [(0,), (0, 1), (3, 0, 7), tuple(range(100))])
def test_clocks_round_trip(indices: tuple[int, ...], max_bytes: int) -> None:
    clocks = _clocks(*indices)
    given = snapshot(clocks=clocks, statistics=clocks[0].statistics if len(indices) == 1 else VALUES)
    assembler = Assembler(FINGERPRINT, 3, most_clocks=4096)
    found = [assembler.add(data) for _, data in snapshots.encode(given, NATURAL, ABOUT, max_bytes)]
    assert found[:-1] == [None] * (len(found) - 1)
    _same(found[-1], given)


def test_an_only_clock_costs_three_numbers() -> None:
    given = snapshot(clocks={0: Clock(VALUES, 7.0, 1.7e9)})
    data = snapshots.encode(given, NATURAL, ABOUT, 1 << 20)[0][1]
    assert len(data) <= len(SNAPSHOT) + 3 * 8 + 2


def test_no_more_clocks_are_read_than_there_can_be() -> None:
    two = snapshots.encode(snapshot(clocks=_clocks(0, 1)), NATURAL, ABOUT, 1 << 20)[0][1]
    for most in (0, 1):
        with pytest.raises(BadValue, match="15 statistics, but the model has 3"):
            Assembler(FINGERPRINT, 3, most_clocks=most).add(two)


def _payload(*numbers: float) -> bytes:
    return np.array([*VALUES, *numbers], "<f8").tobytes()


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0.5, 1, 0), "clock 0.5 with 1 effective events cannot be"),
        ((-1, 1, 0), "clock -1 with 1 effective events cannot be"),
        ((0, -1, 0), "clock 0 with -1 effective events cannot be"),
        ((0, math.nan, 0), "a number is not finite"),
        ((2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 2, 3), "clock 2 with 1 effective events cannot be"),
        ((0, 1), "5 statistics, but the model has 3"),
        ((0, 1, 0, 0), "7 statistics, but the model has 3"),
        ((0, 1, 0, 1, 2, 3), "9 statistics, but the model has 3"),
    ],
)
def test_clocks_that_cannot_be_are_refused(numbers: tuple[float, ...], text: str) -> None:
    record = snapshot_record({"n_statistics": 3 + len(numbers)}, payload=_payload(*numbers))
    with pytest.raises(BadValue) as caught:
        Assembler(FINGERPRINT, 3, most_clocks=4096).add(record)
    assert str(caught.value) == text
