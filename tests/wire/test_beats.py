"""Beats as records: they round-trip, and what cannot be is refused, by who writes and by who reads."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from streaminfer.wire import beats
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.beats import Beat
from streaminfer.wire.errors import BadFrame, BadValue, WireError
from tests.wire.monitor_messages import BEAT, beat_record, measurement_record


@pytest.mark.parametrize(
    "given",
    [
        BEAT,
        replace(BEAT, counters={}, ready=False, start=0, at=253_402_300_799_999),
        replace(BEAT, instance="a/b ü", host=""),
    ],
)
def test_a_beat_round_trips(given: Beat) -> None:
    key, data = beats.encode(given)
    assert key == f"svb-worker/{given.instance}".encode()
    assert beats.decode(key, data) == given


PLAIN = "counters must have plain names and finite numbers"
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"service": "Master"}, "service must have at most 40 small letters and hyphens (got 'Master')"),
    ({"service": "master"}, "the key must be service/instance (got b'svb-worker/worker-1.0123abcd')"),
    ({"instance": ""}, "instance must not be empty (got '')"),
    ({"instance": "x" * 301}, "instance must have at most 300 characters (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"host": "\x07"}, r"host must have printable characters only (got '\x07')"),
    ({"start": -1}, "start must be from 1970 to 9999 (got -1)"),
    ({"at": -1000}, "at must be from 1970 to 9999 (got -1000)"),
    ({"counters": {f"c{i}": 0.0 for i in range(101)}}, "counters must be at most 100 (got 101)"),
    ({"counters": {"A": 1.0}}, f"{PLAIN} (got 'A': 1.0)"),
    ({"counters": {"a": math.nan}}, f"{PLAIN} (got 'a': nan)"),
]


@pytest.mark.parametrize(("changes", "text"), WRONG, ids=lambda value: str(value)[:40])
def test_beats_that_cannot_be_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(BadValue) as caught:
        beats.decode(*beat_record(**changes))
    assert str(caught.value) == text


def test_every_field_but_a_truth_is_refused_in_one_way_at_least() -> None:
    fields = DECLARED.decode("health", beat_record()[1]).keys()
    assert {name for changes, _ in WRONG for name in changes} == fields - {"ready"}


def test_what_would_not_be_read_is_not_written() -> None:
    for wrong in (replace(BEAT, counters={"a": math.inf}), replace(BEAT, service="X"), replace(BEAT, instance="\n")):
        with pytest.raises(BadValue):
            beats.encode(wrong)


def test_bytes_that_are_none_of_ours_are_refused() -> None:
    key, data = beat_record()
    for each in (None, b"", b"\x00", data[:-1], data + b"\x00", b"\x01" + data[1:], bytes(2 << 20)):
        with pytest.raises(WireError):
            beats.decode(key, each)
    for other in (None, b"", b"svb-worker"):
        with pytest.raises(BadValue, match="the key must be service/instance"):
            beats.decode(other, data)
    with pytest.raises(BadFrame, match="schema id 15 is not the 16 of this topic"):
        beats.decode(*measurement_record())


def test_a_registrys_ids_are_written_and_read() -> None:
    schemas = Schemas({"health": 78})
    key, data = beats.encode(BEAT, schemas)
    assert data[4] == 78
    assert beats.decode(key, data, schemas) == BEAT
