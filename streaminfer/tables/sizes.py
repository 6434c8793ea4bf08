"""How much of a table one snapshot has at most: a transaction stays small, whatever `snapshot_ms` says."""

from __future__ import annotations

from typing import Final

MAX_DIRTY: Final = 10_000
"""Rows, about."""
MAX_DIRTY_BYTES: Final = 8 << 20


def most_dirty(row_size: int) -> int:
    """Rows that may have changed before a snapshot must come."""
    return max(1, min(MAX_DIRTY, MAX_DIRTY_BYTES // (8 * row_size)))
