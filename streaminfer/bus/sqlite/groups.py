"""Groups in the file: leases, the assignment and its generations, all inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final, NamedTuple

from streaminfer.bus.protocol import Fenced
from streaminfer.bus.sqlite.assignment import assign
from streaminfer.bus.sqlite.catalog import Catalog

LONGEST_LEASE: Final = 2.0
"""A lease that ends more than this many sessions from now was written by a clock that has gone back since: it is void.

One session would do, but a clock that is put right by a fraction of a second must not end every lease.
"""


class Identity(NamedTuple):
    """What a member joins with."""

    group: str
    topics: tuple[str, ...]
    instance: str | None


class State(NamedTuple):
    """A group's generation, and the version of the catalog that its assignment was made for."""

    generation: int
    catalog: int


def state(connection: sqlite3.Connection, group: str) -> State:
    """The state of a group; generation 0 before its first member."""
    row = connection.execute("SELECT generation, catalog FROM groups WHERE name = ?", (group,)).fetchone()
    return State(0, 0) if row is None else State(*row)


def join(connection: sqlite3.Connection, catalog: Catalog, who: Identity, now: float, session_s: float) -> int:
    """Adds a member, which inherits the partitions of its instance's last member, and returns its id."""
    member = connection.execute(
        "INSERT INTO members (group_name, topics, expires) VALUES (?, ?, ?)",
        (who.group, ",".join(who.topics), now + session_s),
    ).lastrowid
    if member is None:
        raise AssertionError("an INSERT into a rowid table has a last row")
    if who.instance is not None:
        _take_over(connection, who.group, who.instance, member)
    _evict(connection, who.group, now, session_s)
    _rebalance(connection, catalog, who.group)
    return member


def beat(
    connection: sqlite3.Connection, catalog: Catalog, who: Identity, member: int, *, now: float, session_s: float
) -> bool:
    """Extends a lease and ends those that ran out; false if the member's own is among them or has gone before."""
    alive = (
        connection.execute(
            "UPDATE members SET expires = ? WHERE id = ? AND expires > ?", (now + session_s, member, now)
        ).rowcount
        == 1
    )
    evicted = _evict(connection, who.group, now, session_s)
    if evicted or state(connection, who.group).catalog != catalog.version:
        _rebalance(connection, catalog, who.group)
    return alive


def leave(connection: sqlite3.Connection, catalog: Catalog, group: str, member: int) -> None:
    """Ends a membership and hands its partitions on at once."""
    if connection.execute("DELETE FROM members WHERE id = ?", (member,)).rowcount:
        _rebalance(connection, catalog, group)


def was_replaced(connection: sqlite3.Connection, who: Identity, member: int) -> bool:
    """Whether another member has joined under this one's instance name."""
    row = connection.execute(
        "SELECT member FROM instances WHERE group_name = ? AND instance = ?", (who.group, who.instance)
    ).fetchone()
    return row is not None and row[0] != member


def owned(connection: sqlite3.Connection, group: str, member: int) -> dict[int, int]:
    """The partitions of a member, by id, with the generation since when it has each."""
    rows = connection.execute(
        "SELECT partition, since FROM owners WHERE group_name = ? AND member = ?", (group, member)
    )
    return dict(rows.fetchall())


def check_owner(connection: sqlite3.Connection, group: str, member: int, claims: Mapping[int, int | None]) -> None:
    """Raises Fenced unless the member is there and has had each claimed partition since the generation it knows of."""
    alive = connection.execute("SELECT 1 FROM members WHERE id = ?", (member,)).fetchone()
    if alive is None:
        raise Fenced(f"this member is no longer in group {group!r}: its lease ran out or another took its place")
    now_owned = owned(connection, group, member)
    for partition, since in claims.items():
        if since is None or now_owned.get(partition) != since:
            raise Fenced(f"this member of group {group!r} no longer owns every partition whose position it commits")


def check_vacant(connection: sqlite3.Connection, group: str, now: float, session_s: float) -> None:
    """Raises Fenced if a group has members: then only they may commit its positions."""
    live = "SELECT 1 FROM members WHERE group_name = ? AND expires > ? AND expires <= ?"
    if connection.execute(live, (group, now, now + LONGEST_LEASE * session_s)).fetchone():
        raise Fenced(f"group {group!r} has members: only they may commit its positions")


def _take_over(connection: sqlite3.Connection, group: str, instance: str, member: int) -> None:
    last = connection.execute(
        "SELECT member FROM instances WHERE group_name = ? AND instance = ?", (group, instance)
    ).fetchone()
    connection.execute("INSERT OR REPLACE INTO instances VALUES (?, ?, ?)", (group, instance, member))
    if last is not None and connection.execute("DELETE FROM members WHERE id = ?", last).rowcount:
        connection.execute(
            "UPDATE owners SET member = ?, since = ? WHERE group_name = ? AND member = ?",
            (member, _next_generation(connection, group), group, last[0]),
        )


def _evict(connection: sqlite3.Connection, group: str, now: float, session_s: float) -> int:
    """Ends the leases that ran out, and those that are void."""
    over = "DELETE FROM members WHERE group_name = ? AND (expires <= ? OR expires > ?)"
    return connection.execute(over, (group, now, now + LONGEST_LEASE * session_s)).rowcount


def _next_generation(connection: sqlite3.Connection, group: str) -> int:
    (generation,) = connection.execute(
        """INSERT INTO groups VALUES (?, 1, 0)
            ON CONFLICT (name) DO UPDATE SET generation = generation + 1 RETURNING generation""",
        (group,),
    ).fetchone()
    return int(generation)


def _rebalance(connection: sqlite3.Connection, catalog: Catalog, group: str) -> None:
    """Makes a new assignment; the generation grows if any partition changes hands."""
    members = {
        member: frozenset(topics.split(","))
        for member, topics in connection.execute("SELECT id, topics FROM members WHERE group_name = ?", (group,))
    }
    partitions = {id_: entry.topic.name for entry in catalog.known() for id_ in entry.ids}
    rows = connection.execute("SELECT partition, member FROM owners WHERE group_name = ?", (group,))
    owners: dict[int, int] = dict(rows.fetchall())
    wanted = assign(members, partitions, owners)
    if wanted != owners:
        generation = _next_generation(connection, group)
        connection.executemany(
            "DELETE FROM owners WHERE group_name = ? AND partition = ?",
            [(group, partition) for partition in owners if partition not in wanted],
        )
        connection.executemany(
            "INSERT OR REPLACE INTO owners VALUES (?, ?, ?, ?)",
            [
                (group, partition, member, generation)
                for partition, member in wanted.items()
                if owners.get(partition) != member
            ],
        )
    connection.execute(
        "INSERT INTO groups VALUES (?, 0, ?) ON CONFLICT (name) DO UPDATE SET catalog = excluded.catalog",
        (group, catalog.version),
    )
