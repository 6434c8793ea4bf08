"""What is known of drift, in a snapshot: the same after a round trip, and nothing that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streaminfer.variational.drift import watching
from streaminfer.variational.drift.ranks import EDGES
from streaminfer.variational.drift.watching import LANES, SIZES, Scored, State
from streaminfer.wire import drift_states, snapshots
from streaminfer.wire.drift_states import HEAD, MAX_BYTES, ROW
from streaminfer.wire.errors import BadValue
from streaminfer.wire.snapshots import Assembler
from tests.wire.messages import ABOUT, FINGERPRINT, NATURAL, snapshot, snapshot_record


def lived(n: int, partitions: int = 3, largest: int = 40, budget: float = 1e300) -> State:
    """A state after n minibatches of 1 to `largest` events."""
    rng = np.random.default_rng(n)
    state = State(4)
    for i in range(n):
        scored = Scored(i % partitions, i, int(rng.integers(1, largest + 1)), float(rng.normal() - 30 * (i > n - 20)))
        state = watching.step(state, scored, budget, 2 * i)
    return state


@pytest.mark.parametrize("state", [State(256), lived(1), lived(150), lived(2000), lived(900, budget=1e4)])
def test_round_trip(state: State) -> None:
    assert drift_states.decode(drift_states.encode(state), state.n_alarms, state.alarm_at) == state
    given = snapshot(drift=state, n_events=10_000)
    ((_, data),) = snapshots.encode(given, NATURAL, ABOUT, 1 << 20)
    found = Assembler(FINGERPRINT, 3).add(data)
    assert found is not None
    assert found.drift == state


def test_the_states_differ() -> None:
    assert lived(900, budget=1e4).n_alarms > 0
    assert len({drift_states.encode(lived(n)) for n in (1, 150, 2000)}) == 3
    assert len(lived(2000).pools) == 3 * SIZES
    assert lived(2000).pools[0].stride > 1


def test_what_is_restored_goes_on_in_the_same_way() -> None:
    state = lived(700)
    again = drift_states.decode(drift_states.encode(state), state.n_alarms, state.alarm_at)
    for i in range(200):
        scored = Scored(i % 3, i, 5, -float(i))
        state, again = (watching.step(each, scored, 1e6, i) for each in (state, again))
        assert again == state
    assert state.n_alarms > 0


def test_the_largest_state_leaves_the_manifest_its_room() -> None:
    state = lived(4000, partitions=LANES)
    assert len(state.pools) == LANES * SIZES
    assert len(drift_states.encode(state)) == MAX_BYTES
    statistics = np.arange(30_000.0)
    most = snapshots.ENVELOPE + MAX_BYTES + 80_000
    given = snapshot(drift=state, n_events=10_000, statistics=statistics, positions=dict.fromkeys(range(1024), 2**62))
    records = snapshots.encode(given, NATURAL, ABOUT, most)
    assert len(records) == 4
    assert max(len(data) for _, data in records) <= most


GOOD = np.frombuffer(drift_states.encode(lived(150)), "<f8")
FIRST = HEAD
"""The place of the first pool."""


def changed(**at: float) -> bytes:
    numbers = GOOD.copy()
    for place, value in at.items():
        numbers[int(place[1:])] = value
    return numbers.tobytes()


EDGE = FIRST + 4 + EDGES
BAD: list[tuple[bytes, str]] = [
    (b"", "0 bytes are not a state of drift"),
    (GOOD.tobytes()[:-1], f"{8 * len(GOOD) - 1} bytes are not a state of drift"),
    (GOOD.tobytes()[:-8], f"{8 * len(GOOD) - 8} bytes are not a state of drift"),
    (GOOD.tobytes() + bytes(8 * ROW * 40), f"{8 * len(GOOD) + 320 * ROW} bytes are not a state of drift"),
    (changed(_0=0), "0 is not a whole number from 1 to 2"),
    (changed(_0=4.5), "4.5 is not a whole number from 1 to 2"),
    (changed(_0=1e300), r"1e\+300 is not a whole number"),
    (changed(_1=np.nan), "a number is not finite"),
    (changed(_2=-1), "evidence of drift is negative, or an open block is full"),
    (changed(_46=4), "evidence of drift is negative, or an open block is full"),
    (changed(_46=-1), "-1 is not a whole number from 0"),
    (changed(**{f"_{FIRST}": 5.0}), "a kind of blocks appears twice, or does not exist"),
    (changed(**{f"_{FIRST}": 32.0}), "a kind of blocks appears twice, or does not exist"),
    (changed(**{f"_{FIRST + 1}": 7.0}), "a stride of 7 with"),
    (changed(**{f"_{FIRST + 1}": 2048.0}), "a stride of 2048 with"),
    (changed(**{f"_{FIRST + 2}": 8.0, f"_{FIRST + 1}": 8.0}), "a stride of 8 with 8 values since"),
    (changed(**{f"_{FIRST + 2}": -1.0}), "-1 is not a whole number from 0"),
    (changed(**{f"_{FIRST + 3}": 31.0}), "since the last of 31 cannot be"),
    (changed(**{f"_{FIRST + 1}": 8.0, f"_{EDGE}": 1e9}), "the edges of bins must be in order"),
    (changed(**{f"_{FIRST + 1}": 8.0}), "0 is not a whole number from 1 to 2"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "text"), BAD)
def test_states_that_cannot_be_are_refused(data: bytes, text: str) -> None:
    assert drift_states.decode(GOOD.tobytes(), 0, -1).pools[0].stride == 1
    with pytest.raises(BadValue, match=text):
        drift_states.decode(data, 0, -1)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"n_alarms": -1}, "-1 alarms of drift, the newest after -1 of 100 events, cannot be"),
        ({"n_alarms": 1}, "1 alarms of drift, the newest after -1 of 100 events, cannot be"),
        ({"alarm_at": 7}, "0 alarms of drift, the newest after 7 of 100 events, cannot be"),
        ({"n_alarms": 1, "alarm_at": 101}, "1 alarms of drift, the newest after 101 of 100 events, cannot be"),
        ({"n_alarms": 1, "alarm_at": -2}, "1 alarms of drift, the newest after -2 of 100 events, cannot be"),
        ({"log_evidence": 1.0}, "a log evidence of 1 is not the 0 of the state"),
        ({"log_evidence": np.nan}, "a log evidence of nan is not the 0 of the state"),
        ({"state": b"x"}, "1 bytes are not a state of drift"),
    ],
    ids=str,
)
def test_a_manifest_that_contradicts_itself_is_refused(change: dict[str, Any], text: str) -> None:
    fields = {"log_evidence": 0.0, "n_alarms": 0, "alarm_at": -1, "state": drift_states.encode(State(256))}
    assert Assembler(FINGERPRINT, 3).add(snapshot_record({"drift": fields})) is not None
    with pytest.raises(BadValue) as caught:
        Assembler(FINGERPRINT, 3).add(snapshot_record({"drift": {**fields, **change}}))
    assert str(caught.value) == text
