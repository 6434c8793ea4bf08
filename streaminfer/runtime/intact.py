"""Values of records that the bus could read."""

from __future__ import annotations

from streaminfer.bus.protocol import Record, Unreadable
from streaminfer.wire.errors import Damaged


def value_of(record: Record) -> bytes | None:
    """The value of a record; raises Damaged in place of bytes that are not those that were written."""
    if isinstance(record, Unreadable):
        raise Damaged(record.fault)
    return record.value
