"""Event times: RFC 3339, or seconds since 1970. Written out here, as pure code has no business with clocks."""

from __future__ import annotations

import re
from typing import Final

EARLIEST: Final = -62_135_596_800.0
LATEST: Final = 253_402_300_799.999
"""The years 1 to 9999 in seconds since 1970: what RFC 3339 can say."""
AHEAD_S: Final = 3600.0
"""Seconds that an event's time may be ahead of its record's timestamp, as clocks differ.

One event of the year 9999 would make all others weightless. It is held against the record's timestamp and not against
a clock, so that a replay decides the same.
"""

_RFC_3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(\.\d{1,18})?(?:[Zz]|([+-])(\d\d):(\d\d))?", re.ASCII
)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parse(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time; raises ValueError. A leap second is the first of the next minute.

    Between the day and the time may be a T or a space. Without a zone it is a time of UTC.
    """
    found = _RFC_3339.fullmatch(text)
    if found is None:
        raise ValueError("not an RFC 3339 time")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    sign, hours, minutes = found[8], int(found[9] or 0), int(found[10] or 0)
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1] and (leap or (month, day) != (2, 29))):
        raise ValueError("not a day of the calendar")
    if hour > 23 or minute > 59 or second > 60 or hours > 23 or minutes > 59:
        raise ValueError("not a time of day")
    offset = (hours * 3600 + minutes * 60) * (-1 if sign == "-" else 1)
    whole = _day(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
    return whole + float(found[7] or 0)


def lacks_zone(text: str) -> bool:
    """Whether a text is a time that does not say its zone."""
    found = _RFC_3339.fullmatch(text)
    return found is not None and found[8] is None and text[-1] not in "Zz"


def _day(year: int, month: int, day: int) -> int:
    """Days since 1970 in the Gregorian calendar, counted in years that begin in March."""
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719_469
