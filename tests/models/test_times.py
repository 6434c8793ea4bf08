"""Event times: RFC 3339 and seconds since 1970, held against the standard library."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaminfer.models import times
from streaminfer.models.checks import check
from streaminfer.models.events import RULES, Field
from streaminfer.models.reasons import broken, with_value

AT = (Field("k", "number"), Field("timestamp", "time", path=("at",)))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONES))
def test_every_time_is_that_of_the_calendar(moment: datetime) -> None:
    whole = moment.replace(microsecond=0) - EPOCH
    expected = whole.days * 86_400 + whole.seconds + float(f"0.{moment.microsecond:06}")
    assert times.parse(moment.isoformat()) == expected
    assert times.parse(moment.isoformat(" ").replace("+00:00", "z")) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2024-02-29t12:00:00.25-01:30", 1_709_213_400.25),
        ("2016-12-31T23:59:60Z", 1_483_228_800),
        ("0001-01-01T00:00:00Z", times.EARLIEST),
        ("9999-12-31T23:59:59.999Z", times.LATEST),
        ("2024-05-01 12:00:00", 1_714_564_800),
        ("2024-05-01T12:00:00.5", 1_714_564_800.5),
        ("2024-05-01 12:00:00.125+02:00", 1_714_557_600.125),
    ],
)
def test_some_times(text: str, seconds: float) -> None:
    assert times.parse(text) == seconds


BAD = [
    "", "now", "2024-05-01", "2024-05-01T12:00", "2024-05-01  12:00:00", "2024-02-30T00:00:00Z", "2023-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z", "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z", "2024-01-00T00:00:00Z",
    "2024-01-01T24:00:00Z", "2024-01-01T00:60:00Z", "2024-01-01T00:00:61Z", "2024-01-01T00:00:00+24:00",
    "2024-01-01T00:00:00.Z", "0000-01-01T00:00:00Z", "2024-01-01T00:00:00Z\n", "２024-01-01T00:00:00Z",
    "0001-01-01T00:00:00+01:00", "1714560000",
]  # fmt: skip


@pytest.mark.parametrize("value", [*BAD, None, True, [], {}, -6.3e10, 2.6e11, 10**400])
def test_what_is_no_time_makes_no_event(value: object) -> None:
    good = {"k": 1, "at": "2024-05-01T12:00:00Z"}
    found = check(AT, [good, {"k": 1, "at": value}, {"k": 2, "at": 5}])
    assert found.events.numbers.tolist() == [[1, 1_714_564_800], [2, 5]]
    reason = with_value(*broken(RULES["time"], value))
    assert RULES["time"] in reason
    assert [(each.row, each.reason) for each in found.rejected] == [(1, f"timestamp (from at): {reason}")]


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("2024-05-01 12:00:00", True), ("2024-05-01T12:00:00.25", True), ("2024-05-01T12:00:00Z", False),
        ("2024-05-01 12:00:00z", False), ("2024-05-01 12:00:00-00:00", False), ("2024-05-01", False), ("noon", False),
    ],
)  # fmt: skip
def test_which_times_do_not_say_their_zone(text: str, lacks: bool) -> None:
    assert times.lacks_zone(text) is lacks


def test_texts_and_numbers_may_be_mixed() -> None:
    rows = [{"k": 1, "at": at} for at in ("1970-01-02T00:00:00Z", 1.5, 7, "1970-01-01T00:00:00.5Z")]
    assert check(AT, rows).events.numbers[:, 1].tolist() == [86_400, 1.5, 7, 0.5]
