"""Values of records that the bus could read."""

from __future__ import annotations

from streaminfer.bus.protocol import Record, Unreadable
from streaminfer.wire.errors import Damaged
from streaminfer.wire.key_records import PREFIX
from streaminfer.wire.snapshots import MANIFEST


def value_of(record: Record) -> bytes | None:
    """The value of a record; raises Damaged in place of bytes that are not those that were written."""
    if isinstance(record, Unreadable):
        raise Damaged(record.fault)
    return record.value


def is_removal(record: Record) -> bool:
    """Whether it is a tombstone of something that a master has stepped over, and not of a row or a manifest."""
    key = record.key or b""
    return (
        record.value is None and not isinstance(record, Unreadable) and key != MANIFEST and not key.startswith(PREFIX)
    )
