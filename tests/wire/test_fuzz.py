"""Whatever bytes come, a decoder answers with a value or with its own error, never with another."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaminfer.runtime.folding.parts import Parts
from streaminfer.variational.increment import Layout, Pane
from streaminfer.wire import increments, panes, snapshots
from streaminfer.wire.errors import BadValue, WireError
from streaminfer.wire.panes import PanePlace, Shelf
from streaminfer.wire.snapshots import Assembler, OtherSpec
from tests.wire.budget import INPUTS, PROMISED, examples
from tests.wire.messages import ABOUT, FINGERPRINT, NATURAL, increment, increment_record, snapshot, snapshot_record
from tests.wire.mutation import LONGS, arbitrary, mutated

INCREMENTS = [
    increment_record(),
    *increments.encode(increment(statistics=np.arange(4.0)), increments.ENVELOPE + 16),
    increments.encode(increment(n_events=0, n_lost=5, n_dead_lettered=0), 1 << 20)[0],
]
SNAPSHOTS = [
    snapshot_record(),
    snapshot_record({"frontier": []}),
    *(data for _, data in snapshots.encode(snapshot(), NATURAL, ABOUT, snapshots.ENVELOPE + 16)),
]
PLACE = PanePlace(2, 7)
PANES = [
    data for size in (1 << 20, panes.ENVELOPE + 16)
    for _, data in panes.encode(PLACE, Pane(4, np.arange(3.0)), FINGERPRINT, 6, size)
]  # fmt: skip


def _decode_increment(data: bytes) -> increments.Part | None:
    with suppress(WireError):
        return increments.decode(data)
    return None


def _add_snapshot(assembler: Assembler, data: bytes) -> None:
    with suppress(WireError, OtherSpec):
        found = assembler.add(data)
        if found is not None:
            assert np.isfinite(found.payload.statistics).all()
            assert found.payload.statistics.shape == (3,)
            assert (
                min(found.n_events, found.read_to, found.counts.staleness, *found.frontier.positions.values(), 0) == 0
            )


def test_at_least_as_many_inputs_as_promised() -> None:
    assert sum(INPUTS.values()) >= PROMISED


@examples("increments.decode, arbitrary bytes")
@given(arbitrary())
def test_increments_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _decode_increment(data)
        _decode_increment(b"\x00\x00\x00\x00\x01" + data)


@examples("increments.decode, mutated")
@given(mutated(INCREMENTS, LONGS))
def test_increments_mutated(messages: list[bytes]) -> None:
    for part in map(_decode_increment, messages):
        if part is not None:
            assert 0 <= part.value["begin"] < part.value["end"]
            with suppress(BadValue):
                made = increments.assemble([part], Layout(3))
                assert np.isfinite(made.payload.statistics).all()


@examples("increments.assemble, any parts")
@given(st.binary(max_size=40))
def test_parts_in_any_order(draw: bytes) -> None:
    size = len(draw) % 5
    parts = Parts(Layout(size))
    for number, of, length, writer in zip(draw[::4], draw[1::4], draw[2::4], draw[3::4], strict=False):
        value = {**PART.value, "part": number % 4, "parts": 1 + of % 4, "writer": "ab"[writer % 2]}
        part = increments.Part({**value, "end": 12 + writer % 3, "statistics": bytes(length % 40)})
        with suppress(BadValue):
            made = parts.add(part)
            assert made is None or made.payload.statistics.shape == (size,)
        with suppress(BadValue):
            increments.assemble([part] * value["parts"], Layout(size))


PART = increments.decode(INCREMENTS[0])


def _add_panes(messages: list[bytes]) -> None:
    shelf = Shelf(FINGERPRINT, 3, 10)
    for data in messages:
        for part in range(2):
            with suppress(WireError):
                shelf.add(f"2/7/{part}".encode(), data)
    with suppress(WireError):
        for clock, found in shelf.panes(6).items():
            assert (clock, list(found)) == (2, [7])
            assert np.isfinite(found[7].statistics).all()
            assert found[7].statistics.shape == (3,)
            assert found[7].n_events >= 1


@examples("panes.add, arbitrary bytes")
@given(arbitrary())
def test_panes_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        _add_panes([data, b"\x00\x00\x00\x00\x06" + data])


@examples("panes.add, mutated")
@given(mutated(PANES, LONGS))
def test_panes_mutated(messages: list[bytes]) -> None:
    _add_panes(messages)


@examples("increments.assemble, any panes")
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, -1.0, 0.5, 1e17, 1.7e9, 1e300, np.inf]), max_size=25))
def test_any_numbers_as_panes(numbers: list[float]) -> None:
    part = increments.Part({**PART.value, "statistics": np.array(numbers, "<f8").tobytes()})
    with suppress(BadValue):
        made = increments.assemble([part], Layout(3, windowed=True))
        assert sum(pane.n_events for pane in made.payload.panes.values()) <= made.n_events
        assert all(pane.n_events >= 1 and np.isfinite(pane.statistics).all() for pane in made.payload.panes.values())


@examples("snapshots.add, arbitrary bytes")
@given(arbitrary())
def test_snapshots_from_arbitrary_bytes(messages: tuple[bytes, ...]) -> None:
    for data in messages:
        assembler = Assembler(FINGERPRINT, 3)
        _add_snapshot(assembler, data)
        _add_snapshot(assembler, b"\x00\x00\x00\x00\x05" + data)


@examples("snapshots.add, mutated")
@given(mutated(SNAPSHOTS, LONGS))
def test_snapshots_mutated(messages: list[bytes]) -> None:
    assembler = Assembler(FINGERPRINT, 3)
    for record in (*SNAPSHOTS[2:-1], *messages, SNAPSHOTS[-1]):
        _add_snapshot(assembler, record)
