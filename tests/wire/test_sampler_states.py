"""States of chains as records: the newest whole one is restored, and what cannot be is refused."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from streaminfer.sampling.draws import Counters
from streaminfer.sampling.states import SamplerState
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadFrame, BadValue, Damaged, Older, WireError
from streaminfer.wire.sampled import sampler_states
from streaminfer.wire.sampled.sampler_states import Shelf, encode, token
from tests.wire.chain_messages import UNIT, head_record, state, tightest
from tests.wire.messages import FINGERPRINT

MOST = 10_000
TIGHT = tightest(lambda max_bytes: encode(state(values=np.zeros(0), setup=np.zeros(0)), max_bytes))
"""Bytes of a record with room for one number."""
SMALL = TIGHT + 300
Records = list[tuple[bytes, bytes]]


def shelf(most: int = MOST, **changes: Any) -> Shelf:
    return Shelf(FINGERPRINT, UNIT, most, **changes)


def filled(*writes: Records) -> Shelf:
    found = shelf()
    for key, data in (record for write in writes for record in write):
        found.add(key, data)
    return found


def same(found: SamplerState | None, given: SamplerState) -> None:
    assert found is not None
    for field in fields(SamplerState):
        one, other = getattr(found, field.name), getattr(given, field.name)
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other, field.name


def compacted(*writes: Records) -> Records:
    """What a compacted topic keeps: the newest of each key, at its place."""
    records = [record for write in writes for record in write]
    newest = {key: i for i, (key, _) in enumerate(records)}
    return [records[i] for i in sorted(newest.values())]


WAITING: dict[str, Any] = {
    "segment": -1, "phase": "waiting", "step": 0, "block": 0, "n_drawn": 0, "frontier": (), "n_events": 0, "digest": "",
    "counters": Counters(), "values": np.zeros(0), "setup": np.zeros(0),
}  # fmt: skip


@pytest.mark.parametrize("max_bytes", [1 << 20, SMALL, TIGHT + 7])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        WAITING,
        {"phase": "setup", "step": 0, "n_drawn": 0, "setup": np.zeros(0)},
        {"values": np.zeros(0)},
        {"values": np.arange(500.0), "setup": np.arange(900.0)},
    ],
)
def test_a_state_round_trips(changes: dict[str, Any], max_bytes: int) -> None:
    given = state(**changes)
    records = encode(given, max_bytes)
    assert all(len(key) + len(data) <= max_bytes for key, data in records)
    assert len({key for key, _ in records}) == len(records)
    assert records[-1][0] == b"part-0"
    same(filled(records).newest, given)


LARGE = {"values": np.arange(300.0), "setup": np.arange(400.0)}


def test_a_setup_is_written_once() -> None:
    first = state(**LARGE)
    later = state(**{**LARGE, "values": -np.arange(300.0)}, step=200)
    one, two = encode(first, SMALL), encode(later, SMALL, written=token(first.setup))
    assert len(two) < len(one)
    assert {key for key, _ in two} < {key for key, _ in one}
    same(filled(one, two).newest, later)
    same(filled(compacted(one, two)).newest, later)


def test_a_setup_that_changed_is_written() -> None:
    first = state(**LARGE)
    later = state(**{**LARGE, "setup": np.arange(410.0)}, segment=5, step=0, n_drawn=0)
    two = encode(later, SMALL, written=token(first.setup))
    same(filled(encode(first, SMALL), two).newest, later)
    same(filled(compacted(encode(first, SMALL), two)).newest, later)


@pytest.mark.parametrize("shorter", ["values", "setup"])
def test_parts_that_a_longer_state_left_behind_are_not_used(shorter: str) -> None:
    first = state(**LARGE)
    later = state(**{**LARGE, shorter: np.arange(3.0)}, segment=5, step=0, n_drawn=0)
    one, two = encode(first, SMALL), encode(later, SMALL)
    kept = compacted(one, two)
    assert len(kept) > len(two)
    same(filled(kept).newest, later)


def test_parts_of_an_older_write_are_not_mixed_with_a_newer_head() -> None:
    """Any part that a newer write lost: the state before it is still there, as long as its own parts are."""
    first = state(**LARGE)
    later = state(values=np.arange(300.0) + 1, setup=np.arange(400.0) + 1, segment=5, step=0, n_drawn=0)
    one, two = encode(first, SMALL), encode(later, SMALL)
    for lost in range(len(two) - 1):
        given = two[:lost] + two[lost + 1 :]
        for log, expected in ((one + given, first), (compacted(one, given), None)):
            found = shelf()
            for record in log[:-1]:
                found.add(*record)
            with pytest.raises(BadValue, match=r"part \d+ of a state is not there, or of another state"):
                found.add(*log[-1])
            assert (found.newest is None) is (expected is None)
            if expected is not None:
                same(found.newest, expected)
    same(filled(one, two[:-1]).newest, first)


def test_a_damaged_number_is_noticed() -> None:
    *parts, head = encode(state(**LARGE), SMALL)
    for i, (key, data) in enumerate(parts):
        value = DECLARED.decode(sampler_states.TOPIC, data)
        other = np.frombuffer(value["payload"]) + 1
        bad = [*parts[:i], (key, DECLARED.encode(sampler_states.TOPIC, {**value, "payload": other.tobytes()}))]
        found = filled([*bad, *parts[i + 1 :]])
        with pytest.raises(Damaged, match="not those that were written"):
            found.add(*head)
        assert found.newest is None


def test_a_tombstone_of_the_head_takes_everything_away() -> None:
    found = filled(encode(state(**LARGE), SMALL))
    found.add(b"part-0", None)
    assert found.newest is None
    with pytest.raises(BadValue, match="is not there"):
        found.add(*encode(state(**{**LARGE, "values": np.arange(300.0) + 1}), SMALL)[-1])


def test_a_tombstone_of_a_part_takes_it_away() -> None:
    *parts, head = encode(state(**LARGE), SMALL)
    for lost in range(len(parts)):
        found = filled(parts)
        found.add(parts[lost][0], None)
        with pytest.raises(BadValue, match=f"part {lost + 1} of a state"):
            found.add(*head)
    found = filled(parts)
    for key in (b"part-999", b"junk", None):
        found.add(key, None)
    found.add(*head)
    same(found.newest, state(**LARGE))


@pytest.mark.parametrize(("segment", "step"), [(3, 900), (4, 147)])
def test_a_state_that_was_appended_again_is_refused(segment: int, step: int) -> None:
    found = filled(encode(state(), 1 << 20))
    with pytest.raises(Older, match="steps only rise, so this was appended again"):
        found.add(*encode(state(segment=segment, step=step), 1 << 20)[-1])
    same(found.newest, state())
    for record in encode(state(phase="done"), 1 << 20):
        found.add(*record)
    same(found.newest, state(phase="done"))


@pytest.mark.parametrize("field", ["values", "setup"])
@pytest.mark.parametrize("number", [math.nan, -math.inf])
def test_nothing_that_is_not_finite_is_written(field: str, number: float) -> None:
    with pytest.raises(BadValue, match="a number of a state is not finite"):
        encode(state(**{field: np.array([1.0, number])}), 1 << 20)


def test_a_state_too_large_for_its_parts_is_not_written() -> None:
    with pytest.raises(BadValue, match="a state of 10007 records is more than the 10000 there may be"):
        encode(state(values=np.arange(10_001.0)), TIGHT + 7)
    with pytest.raises(BadValue, match="no room for numbers"):
        encode(state(), TIGHT - 1)


HEADS: list[tuple[dict[str, Any], str]] = [
    ({"segment": -2}, "segment must be 0 or more, or -1 of a chain that waits (got -2)"),
    ({"segment": -1}, "segment must be 0 or more, or -1 of a chain that waits (got -1)"),
    (
        {"phase": "x" * 1000},
        "phase must be one of waiting, setup, warmup, draws, done, cut (got 'xxxxxxxxxxxxxxxxxxxx')",
    ),
    ({"step": -1}, "step must be 0 to 2^53 (got -1)"),
    ({"block": 2**60}, f"block must be 0 to 2^53 (got {2**60})"),
    ({"n_drawn": -1}, "n_drawn must be 0 to 2^53 (got -1)"),
    ({"n_drawn": 16}, "n_drawn must be of 148 steps, one of 10 (got 16)"),
    ({"thin": 0}, "thin must be 1 or more (got 0)"),
    ({"n_events": 101}, "n_events must be 0 to the 100 that the frontier has room for (got 101)"),
    ({"n_dead_lettered": -1}, "n_dead_lettered must be 0 to 2^53 (got -1)"),
    ({"n_lost": -1}, "n_lost must be 0 to 2^53 (got -1)"),
    ({"digest": "x"}, "digest must be hexadecimal (got 'x')"),
    ({"digest": "0" * 129}, f"digest must be hexadecimal (got '{'0' * 20}')"),
    ({"topic_id": "x" * 301}, f"topic_id must have at most 300 characters (got '{'x' * 20}')"),
    ({"n_accepted": 65}, "n_accepted must be at most the 64 proposals (got 65)"),
    ({"n_proposed": -1}, "n_proposed must be 0 to 2^53 (got -1)"),
    ({"n_likelihood": -1}, "n_likelihood must be 0 to 2^53 (got -1)"),
    ({"n_gradient": -1}, "n_gradient must be 0 to 2^53 (got -1)"),
    ({"n_setup": -1}, "n_setup must be 0 to 2^53 (got -1)"),
    ({"n_undone": -1}, "n_undone must be 0 to 2^53 (got -1)"),
    ({"n_read": -1}, "n_read must be 0 to 2^53 (got -1)"),
    ({"n_values": -1}, "n_values must be 0 to 2^53 (got -1)"),
    ({"n_values": MOST}, f"n_values must be at most {MOST} with the set-up (got {MOST + 7})"),
    ({"n_values": 6}, "40 bytes are not the 48 of 6 numbers"),
    ({"values_parts": -1}, "values_parts must be 0 to 9999 (got -1)"),
    ({"values_parts": 10_000}, "values_parts must be 0 to 9999 (got 10000)"),
    ({"values_parts": 1}, "part 2 of a state is not there, or of another state"),
    ({"values_token": "0" * 32}, "the numbers of a state are not those that were written"),
    ({"n_setup_numbers": -1}, "n_setup_numbers must be 0 to 2^53 (got -1)"),
    ({"n_setup_numbers": 8}, "56 bytes are not the 64 of 8 numbers"),
    ({"setup_parts": 2**31 - 1}, f"setup_parts must be 0 to 9999 (got {2**31 - 1})"),
    ({"setup_parts": 2}, "part 2 of a state is not there, or of another state"),
    ({"setup_parts": 0}, "0 bytes are not the 56 of 7 numbers"),
    ({"setup_token": "0" * 32}, "part 1 of a state is not there, or of another state"),
    (
        {"frontier": [{"partition": 2, "start": 0, "end": 100}]},
        "frontier must have partitions of the subposterior (got 2)",
    ),
]


@pytest.mark.parametrize(("changes", "text"), HEADS, ids=lambda value: str(value)[:40])
def test_heads_that_cannot_be_are_refused(changes: dict[str, Any], text: str) -> None:
    found = shelf()
    found.add(*encode(state(), 1 << 20)[0])
    with pytest.raises(WireError) as caught:
        found.add(*head_record(changes))
    assert str(caught.value) == text
    assert found.newest is None
    found.add(*head_record())
    same(found.newest, state())


def test_every_field_of_a_head_is_refused_in_one_way_at_least() -> None:
    value = DECLARED.decode(sampler_states.TOPIC, head_record()[1])
    assert {name for changes, _ in HEADS for name in changes} == value["head"].keys()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"fingerprint": "x" * 1000}, f"fingerprint must be {FINGERPRINT} (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"unit": 4}, "unit must be 5 (got 4)"),
    ({"part": -1}, "part must be 0 to 9999 (got -1)"),
    ({"part": 10_000}, "part must be 0 to 9999 (got 10000)"),
    ({"part": 2}, "key must be part-2 (got b'part-1')"),
    ({"token": "x" * 32}, f"token must be 32 hexadecimal digits (got '{'x' * 32}')"),
    ({"token": ""}, "token must be 32 hexadecimal digits (got '')"),
    ({"payload": b""}, "payload must be numbers (got 0)"),
    ({"payload": bytes(9)}, "payload must be numbers (got 9)"),
]


@pytest.mark.parametrize(("changes", "text"), WRONG, ids=lambda value: str(value)[:40])
def test_parts_that_cannot_be_are_refused(changes: dict[str, Any], text: str) -> None:
    key, data = encode(state(), 1 << 20)[0]
    with pytest.raises(BadValue) as caught:
        shelf().add(
            key, DECLARED.encode(sampler_states.TOPIC, {**DECLARED.decode(sampler_states.TOPIC, data), **changes})
        )
    assert str(caught.value) == text


def test_only_part_0_is_a_head() -> None:
    key, data = encode(state(), 1 << 20)[0]
    head = DECLARED.decode(sampler_states.TOPIC, head_record()[1])["head"]
    part = DECLARED.decode(sampler_states.TOPIC, data)
    for given, name, text in [
        ({**part, "head": head}, key, "head must be that of part 0 (got 1)"),
        ({**part, "part": 0}, b"part-0", "head must be that of part 0 (got 0)"),
        ({**part, "part": 0, "head": head}, b"part-0", f"token must be empty for the head (got '{part['token']}')"),
    ]:
        with pytest.raises(BadValue) as caught:
            shelf().add(name, DECLARED.encode(sampler_states.TOPIC, given))
        assert str(caught.value) == text


def test_no_more_is_held_than_two_states() -> None:
    found = shelf(most=100)
    value = DECLARED.decode(sampler_states.TOPIC, encode(state(), 1 << 20)[0][1])
    records = [
        (f"part-{part}".encode(), DECLARED.encode(sampler_states.TOPIC, {**value, "part": part, "payload": bytes(200)}))
        for part in range(1, 10)
    ]
    for record in records[:8] * 3:
        found.add(*record)
    with pytest.raises(BadValue, match="must be of a state of at most 100 numbers"):
        found.add(*records[8])


def test_bytes_that_are_not_a_state_are_refused() -> None:
    key, data = head_record()
    for each in (b"", b"\x00", data[:-1], data + b"\x00", b"\x01" + data[1:], bytes(2 << 20)):
        with pytest.raises(WireError):
            shelf().add(key, each)
    with pytest.raises(BadFrame, match="schema id 10 is not the 11 or 19 of this topic"):
        shelf().add(key, data[:4] + b"\x0a" + data[5:])


def test_a_registrys_id_is_written_and_read() -> None:
    schemas = Schemas({sampler_states.TOPIC: 78})
    found = shelf(schemas=schemas)
    for key, data in encode(state(), 1 << 20, schemas):
        assert data[:5] == b"\x00\x00\x00\x00\x4e"
        found.add(key, data)
    same(found.newest, state())
