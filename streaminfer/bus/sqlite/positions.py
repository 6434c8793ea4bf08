"""The positions that groups keep on the bus."""

from __future__ import annotations

import sqlite3

from streaminfer.bus.protocol import Partition, Position, Positions
from streaminfer.bus.sqlite.catalog import Catalog

MAX_NOTE = 4000

Prepared = dict[int, Position]
"""Positions by the file's ids of their partitions."""


def prepare(catalog: Catalog, positions: Positions) -> Prepared:
    """Checks positions before the lock is taken; raises UnknownTopic and ValueError."""
    for partition, (offset, note) in positions.items():
        if offset < 0:
            raise ValueError(f"the position of {partition} is {offset}, it must not be negative")
        if len(note) > MAX_NOTE:
            raise ValueError(f"the note at {partition} has {len(note)} characters, at most {MAX_NOTE} are kept")
    return {catalog.id_of(partition): position for partition, position in positions.items()}


def put(connection: sqlite3.Connection, group: str, prepared: Prepared) -> None:
    """Replaces a group's positions of these partitions."""
    connection.executemany(
        "INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?)",
        [(group, id_, offset, note) for id_, (offset, note) in prepared.items()],
    )


def load(connection: sqlite3.Connection, group: str) -> dict[Partition, Position]:
    """All positions of a group."""
    rows = connection.execute(
        """SELECT topic, number, position, note FROM positions JOIN partitions ON partitions.id = partition
            WHERE group_name = ? ORDER BY topic, number""",
        (group,),
    )
    return {Partition(topic, number): Position(position, note) for topic, number, position, note in rows}
