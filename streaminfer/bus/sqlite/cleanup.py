"""Compaction and retention: what is removed from a log. Neither ever changes an offset that was given."""

from __future__ import annotations

import logging
import sqlite3

from streaminfer.bus.sqlite.catalog import Catalog
from streaminfer.bus.sqlite.log import Batch
from streaminfer.bus.sqlite.schema import OFFSET_BITS
from streaminfer.bus.sqlite.store import Store

logger = logging.getLogger(__name__)

COMPACT_WEIGHT = 400
TOMBSTONE_MS = 24 * 3600 * 1000
RETAIN_EVERY_S = 30.0
RETAIN_RECORDS = 20_000
"""How many records of a partition one transaction of retention removes, so that the lock is held shortly."""

_WEIGHT = "1 + coalesce(length(value), 0) / 16384"
"""A record's share in the decision to compact: small ones count as one, a megabyte as many."""


_UNREAD = """SELECT p.group_name, p.position, q.start_offset FROM positions p
    JOIN partitions q ON q.id = p.partition JOIN groups g ON g.name = p.group_name
    WHERE p.partition = ? AND p.position < q.start_offset"""
"""Groups with members, now or before: others keep positions that are not those of readers."""


class Cleanup:
    """Removes records as a side effect of appends: compacted topics by weight, and all by age now and then."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog
        self._retained_at = store.clock()
        self._told: dict[tuple[int, str], int] = {}
        """The position of a partition when a warning last said that a group had not read all of it."""

    def after_append(self, connection: sqlite3.Connection, batch: Batch) -> None:
        """Runs what is due, inside the transaction that appended."""
        self._compact_if_dirty(connection, batch)
        now = self._store.clock()
        if not 0 <= now - self._retained_at < RETAIN_EVERY_S:
            self._retained_at = now
            self.retain(connection)

    def _compact_if_dirty(self, connection: sqlite3.Connection, batch: Batch) -> None:
        weights: dict[int, int] = {}
        for id_, (_, _, _, value) in zip(batch.partitions, batch.rows, strict=True):
            weights[id_] = weights.get(id_, 0) + 1 + len(value or b"") // 16384
        for id_, weight in weights.items():
            if self._catalog.entry(self._catalog.partition(id_).topic).topic.cleanup != "compact":
                continue
            dirty, clean = connection.execute(
                "UPDATE partitions SET dirty = dirty + ? WHERE id = ? RETURNING dirty, clean", (weight, id_)
            ).fetchone()
            # At least as much new as old: the work per record appended stays bounded however many keys there are.
            if dirty >= max(COMPACT_WEIGHT, clean):
                compact(connection, id_, int(self._store.clock() * 1000))

    def retain(self, connection: sqlite3.Connection) -> bool:
        """Removes records past their topic's retention, a bounded number; true if some may be left."""
        now_ms = int(self._store.clock() * 1000)
        more = False
        for entry in self._catalog.known():
            if entry.topic.retention_ms is not None:
                for id_ in entry.ids:
                    more |= expire(connection, id_, now_ms - entry.topic.retention_ms)
                    self._tell_unread(connection, id_)
        return more

    def _tell_unread(self, connection: sqlite3.Connection, id_: int) -> None:
        """Says which groups have not read all that is gone: a clock that goes forward makes everything old at once."""
        for group, position, start in connection.execute(_UNREAD, (id_,)).fetchall():
            gone = (id_, group)
            if self._told.get(gone, 0) < start:
                self._told[gone] = start
                logger.warning(
                    "%s: retention removed the positions from %d to %d, which group %s has not committed as read. Is "
                    "the clock of this machine right?",
                    *(self._catalog.partition(id_), position, start, group),
                )


def compact(connection: sqlite3.Connection, id_: int, now_ms: int) -> None:
    """Keeps the newest record of each key, and drops that too if it is a tombstone older than a day."""
    low, high = id_ << OFFSET_BITS, (id_ + 1) << OFFSET_BITS
    connection.execute(
        """DELETE FROM log WHERE id >= :low AND id < :high AND id NOT IN (
            SELECT max(id) FROM log WHERE id >= :low AND id < :high GROUP BY key)""",
        {"low": low, "high": high},
    )
    connection.execute(
        "DELETE FROM log WHERE id >= ? AND id < ? AND value IS NULL AND timestamp < ?",
        (low, high, now_ms - TOMBSTONE_MS),
    )
    connection.execute(
        f"""UPDATE partitions SET dirty = 0, clean = (
            SELECT coalesce(sum({_WEIGHT}), 0) FROM log WHERE id >= ? AND id < ?) WHERE id = ?""",  # noqa: S608
        (low, high, id_),
    )


def expire(connection: sqlite3.Connection, id_: int, oldest_ms: int) -> bool:
    """Removes the records before the first one that is young enough; true if the bound was reached before it."""
    low, high = id_ << OFFSET_BITS, (id_ + 1) << OFFSET_BITS
    old = connection.execute(
        """SELECT id FROM (SELECT id, timestamp FROM log WHERE id >= ? AND id < ? ORDER BY id LIMIT ?)
            WHERE timestamp >= ? LIMIT 1""",
        (low, high, RETAIN_RECORDS, oldest_ms),
    ).fetchone()
    if old is not None:
        trim(connection, id_, old[0] - low)
        return False
    next_old = connection.execute(
        "SELECT id FROM log WHERE id >= ? AND id < ? ORDER BY id LIMIT 1 OFFSET ?", (low, high, RETAIN_RECORDS)
    ).fetchone()
    if next_old is not None:
        trim(connection, id_, next_old[0] - low)
        return True
    (end,) = connection.execute("SELECT next_offset FROM partitions WHERE id = ?", (id_,)).fetchone()
    trim(connection, id_, end)
    return False


def trim(connection: sqlite3.Connection, id_: int, position: int) -> None:
    """Makes `position` the start of the log if it is beyond it, and removes what is before."""
    moved = connection.execute(
        "UPDATE partitions SET start_offset = ? WHERE id = ? AND start_offset < ?", (position, id_, position)
    )
    if moved.rowcount:
        base = id_ << OFFSET_BITS
        connection.execute("DELETE FROM log WHERE id >= ? AND id < ?", (base, base + position))
