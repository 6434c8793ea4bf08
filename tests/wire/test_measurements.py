"""Measurements as records: they round-trip, and what cannot be is refused, by who writes and by who reads."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streaminfer.measuring.measurement import SUBJECTS, Measurement, Value, unknown
from streaminfer.measuring.published import Moment, Published
from streaminfer.wire import measurements
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import BadFrame, BadValue, WireError
from streaminfer.wire.sampled import chains
from tests.wire.messages import FINGERPRINT
from tests.wire.monitor_messages import MEASUREMENT, PUBLISHED, beat_record, measured, measurement_record

SCALARS = [name for name in Measurement.__slots__ if name != "curves"]


def read(record: tuple[bytes | None, bytes | None]) -> Published:
    return measurements.decode(*record, FINGERPRINT)


@pytest.mark.parametrize(
    "given",
    [
        PUBLISHED,
        *(
            replace(PUBLISHED, measurement=unknown("audit", "No audit was made yet.", subject=each))
            for each in SUBJECTS
        ),
        replace(PUBLISHED, moment=Moment(0), measured_at=0),
        replace(
            PUBLISHED, moment=Moment(2**53, 2**53, 2**31 - 1, 2**31 - 1, {}, 2**53), measured_at=253_402_300_799_999
        ),
    ],
)
def test_a_measurement_round_trips(given: Published) -> None:
    record = measurements.encode(given, 1 << 20)
    assert record[0] == f"{given.measurement.check}/{given.measurement.subject}".encode()
    found = read(record)
    assert [getattr(found, name) for name in ("fingerprint", "writer", "measured_at", "moment")] == [
        given.fingerprint, given.writer, given.measured_at, given.moment,
    ]  # fmt: skip
    for name in SCALARS:
        assert getattr(found.measurement, name) == getattr(given.measurement, name)
    assert found.measurement.curves.keys() == given.measurement.curves.keys()
    for name, curve in given.measurement.curves.items():
        np.testing.assert_array_equal(found.measurement.curves[name], curve)


def _value(**changes: Any) -> dict[str, Any]:
    return {**Value("coverage")._asdict(), **changes}


def _curve(*numbers: float) -> dict[str, bytes]:
    return {"curves": {"plot": np.array(numbers).tobytes()}}


NAMED = "must have a name of at most 40 small letters, digits and _"
RISING = "frontier must have different partitions in rising order"
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"fingerprint": "x" * 1000}, f"fingerprint must be {FINGERPRINT} (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"writer": "x" * 301}, "writer must have at most 300 characters (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"writer": "\x1b[2J"}, r"writer must have printable characters only (got '\x1b[2J')"),
    ({"version": -1}, "version must be 0 to 2^53 (got -1)"),
    ({"base_version": 10}, "base_version must not be above version (got 10)"),
    ({"epoch": -1}, "epoch must be 0 or more (got -1)"),
    ({"segment": -1}, "segment must be 0 or more (got -1)"),
    ({"frontier": [{"partition": 1, "position": 0}] * 2}, f"{RISING} (got 1)"),
    ({"frontier": [{"partition": -1, "position": 0}]}, f"{RISING} (got -1)"),
    ({"frontier": [{"partition": 1, "position": -1}]}, "frontier must have positions from 0 on (got -1)"),
    ({"n_events": 2**60}, f"n_events must be 0 to 2^53 (got {2**60})"),
    ({"measured_at": -1}, "measured_at must be from 1970 to 9999 (got -1)"),
    ({"check": "Coverage"}, f"check {NAMED} (got 'Coverage')"),
    ({"check": "shift"}, "the key must be check/subject (got b'coverage/draws')"),
    ({"subject": "prior"}, "subject must be one of posterior, draws, combined (got 'prior')"),
    ({"subject": "combined"}, "the key must be check/subject (got b'coverage/draws')"),
    ({"status": "fine"}, "status must be one of good, watch, fail, unknown (got 'fine')"),
    ({"sentence": ""}, "sentence must not be empty (got '')"),
    ({"sentence": "x" * 2001}, "sentence must have at most 2000 characters (got 'xxxxxxxxxxxxxxxxxxxx')"),
    ({"remedy": "a\nb"}, r"remedy must have printable characters only (got 'a\nb')"),
    ({"target": "some"}, "target must be one of all, anchored, segment (got 'some')"),
    ({"n_draws": -1}, "n_draws must be 0 to 2^53 (got -1)"),
    ({"n_data": -1}, "n_data must be 0 to 2^53 (got -1)"),
    ({"seconds": math.nan}, "seconds must be 0 or more, and finite (got nan)"),
    ({"seed": -1}, "seed must be 0 or more (got -1)"),
    ({"values": [_value()] * 5001}, "values must be at most 5000 (got 5001)"),
    ({"values": [_value(name="")]}, f"values {NAMED} (got '')"),
    ({"values": [_value(coordinate="\x00")]}, r"coordinate must have printable characters only (got '\x00')"),
    ({"values": [_value(value=math.nan)]}, "values must have a value that is finite or null (got nan)"),
    ({"values": [_value(se=-1.0)]}, "values must have a se from 0 on (got -1.0)"),
    ({"values": [_value(lower=-math.inf)]}, "values must have a lower that is finite or null (got -inf)"),
    ({"values": [_value(upper=math.inf)]}, "values must have a upper that is finite or null (got inf)"),
    ({"curves": {f"c{i}": b"" for i in range(51)}}, "curves must be at most 50 (got 51)"),
    ({"curves": {"A plot": b""}}, f"curves {NAMED} (got 'A plot')"),
    ({"curves": {"plot": b""}}, "curves must be whole numbers of 8 bytes (got 0)"),
    ({"curves": {"plot": bytes(9)}}, "curves must be whole numbers of 8 bytes (got 9)"),
    (_curve(2.0, math.nan, 1.0), "a number is not finite"),
    (_curve(0.0), "curves must have 1 to 100 columns, and whole rows (got 0.0)"),
    (_curve(1.5, 1.0), "curves must have 1 to 100 columns, and whole rows (got 1.5)"),
    (_curve(2.0, 1.0), "curves must have 1 to 100 columns, and whole rows (got 2.0)"),
    (_curve(1e300), "curves must have 1 to 100 columns, and whole rows (got 1e+300)"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), WRONG, ids=lambda value: str(value)[:40])
def test_measurements_that_cannot_be_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(BadValue) as caught:
        read(measurement_record(**changes))
    assert str(caught.value) == text


def test_every_field_is_refused_in_one_way_at_least() -> None:
    fields = DECLARED.decode("metrics", measurement_record()[1]).keys()
    assert {name for changes, _ in WRONG for name in changes} == fields


@pytest.mark.parametrize(
    "changes",
    [
        {"values": (Value("coverage", value=math.nan),)}, {"curves": {"plot": np.full((2, 2), math.inf)}},
        {"curves": {"plot": np.arange(3.0)}}, {"sentence": "two\nlines"}, {"check": "Not A Name"}, {"sentence": ""},
    ],
    ids=str,
)  # fmt: skip
def test_what_would_not_be_read_is_not_written(changes: dict[str, Any]) -> None:
    with pytest.raises(BadValue):
        measurements.encode(measured(**changes), 1 << 20)


def test_a_record_fits_its_bytes_or_is_not_written() -> None:
    key, data = measurements.encode(PUBLISHED, 1 << 20)
    tight = len(key) + len(data) + chains.MARGIN
    assert measurements.encode(PUBLISHED, tight) == (key, data)
    with pytest.raises(BadValue, match="the record must have at most"):
        measurements.encode(PUBLISHED, tight - 1)


def test_bytes_that_are_none_of_ours_are_refused() -> None:
    key, data = measurement_record()
    for each in (None, b"", b"\x00", data[:-1], data + b"\x00", b"\x01" + data[1:], bytes(2 << 20)):
        with pytest.raises(WireError):
            measurements.decode(key, each, FINGERPRINT)
    for other in (None, b"", b"coverage", b"coverage/posterior"):
        with pytest.raises(BadValue, match="the key must be check/subject"):
            measurements.decode(other, data, FINGERPRINT)
    with pytest.raises(BadFrame, match="schema id 16 is not the 15 of this topic"):
        read(beat_record())


def test_a_registrys_ids_are_written_and_read() -> None:
    schemas = Schemas({"metrics": 77})
    key, data = measurements.encode(PUBLISHED, 1 << 20, schemas)
    assert data[4] == 77
    found = measurements.decode(key, data, FINGERPRINT, schemas)
    assert found.measurement.values == MEASUREMENT.values
