"""The tables of a bus file, and the checks that a file is one."""

from __future__ import annotations

import sqlite3

from streaminfer.bus.protocol import BusError

APPLICATION_ID = 0x53494E46
VERSION = 2
WITHOUT_CHECKSUMS = 1
"""The version before records had checksums; it is brought up to date when it is opened."""

OFFSET_BITS = 40
"""A log row's id is (partition id << OFFSET_BITS) | offset: a partition is one range of the table, in order."""

NEW_ID = "lower(hex(randomblob(16)))"
"""The id of a topic that is made: no other topic has it, and no later topic of the same name."""

_TABLES = (
    # One row. The version grows whenever topics or partitions are added, so that others know their copy is old.
    "CREATE TABLE catalog (version INTEGER NOT NULL)",
    "INSERT INTO catalog VALUES (1)",
    """CREATE TABLE topics (
        name TEXT PRIMARY KEY, cleanup TEXT NOT NULL, retention_ms INTEGER, max_bytes INTEGER NOT NULL,
        id TEXT NOT NULL DEFAULT '')""",
    # dirty: weight appended since the last compaction; clean: weight that it left (see cleanup.py).
    f"""CREATE TABLE partitions (
        id INTEGER PRIMARY KEY,
        topic TEXT NOT NULL REFERENCES topics (name),
        number INTEGER NOT NULL,
        start_offset INTEGER NOT NULL DEFAULT 0,
        next_offset INTEGER NOT NULL DEFAULT 0 CHECK (next_offset <= {1 << OFFSET_BITS}),
        dirty INTEGER NOT NULL DEFAULT 0,
        clean INTEGER NOT NULL DEFAULT 0,
        UNIQUE (topic, number))""",
    # The key stands before the value: compaction reads keys without touching the pages of large values.
    """CREATE TABLE log (
        id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL, key BLOB, headers BLOB, value BLOB, checksum INTEGER)""",
    # AUTOINCREMENT: the id of a member that has gone is never given to another.
    """CREATE TABLE members (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        group_name TEXT NOT NULL, topics TEXT NOT NULL, expires REAL NOT NULL)""",
    "CREATE INDEX members_of_group ON members (group_name)",
    # The last member that joined under an instance name, kept after it has gone: every other one is fenced.
    """CREATE TABLE instances (
        group_name TEXT NOT NULL, instance TEXT NOT NULL, member INTEGER NOT NULL,
        PRIMARY KEY (group_name, instance)) WITHOUT ROWID""",
    # catalog: the version of the catalog that the assignment was made for.
    "CREATE TABLE groups (name TEXT PRIMARY KEY, generation INTEGER NOT NULL, catalog INTEGER NOT NULL) WITHOUT ROWID",
    # since: the generation in which the member got the partition, so that lost and regained is not the same as kept.
    """CREATE TABLE owners (
        group_name TEXT NOT NULL, partition INTEGER NOT NULL, member INTEGER NOT NULL, since INTEGER NOT NULL,
        PRIMARY KEY (group_name, partition)) WITHOUT ROWID""",
    """CREATE TABLE positions (
        group_name TEXT NOT NULL, partition INTEGER NOT NULL, position INTEGER NOT NULL, note TEXT NOT NULL,
        PRIMARY KEY (group_name, partition)) WITHOUT ROWID""",
    "CREATE TABLE writers (name TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the file holds no tables at all."""
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def check(connection: sqlite3.Connection, path: str) -> None:
    """Raises BusError if the file is another program's or of another version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise BusError(f"{path} is an SQLite file, but not a bus; give the bus a directory of its own")
    if version not in {VERSION, WITHOUT_CHECKSUMS}:
        raise BusError(
            f"{path} has version {version} of the bus's tables, this program reads version {VERSION}; "
            "use the release of streaminfer that wrote it, or a new directory"
        )


def upgrade(connection: sqlite3.Connection) -> None:
    """Brings the tables of the version before up to date, inside the caller's transaction; its records stay as they
    are, without checksums."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == WITHOUT_CHECKSUMS:
        connection.execute("ALTER TABLE log ADD COLUMN checksum INTEGER")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def is_old(connection: sqlite3.Connection) -> bool:
    """Whether there is something to `upgrade`."""
    return bool(connection.execute("PRAGMA user_version").fetchone()[0] == WITHOUT_CHECKSUMS)


def make(connection: sqlite3.Connection) -> None:
    """Makes the tables, inside the caller's transaction."""
    for statement in _TABLES:
        connection.execute(statement)


def lacks_ids(connection: sqlite3.Connection) -> bool:
    """Whether the file was made before topics had ids."""
    return "id" not in {column[1] for column in connection.execute("PRAGMA table_info(topics)")}


def add_ids(connection: sqlite3.Connection) -> None:
    """Gives every topic of such a file an id, inside the caller's transaction."""
    connection.execute("ALTER TABLE topics ADD COLUMN id TEXT NOT NULL DEFAULT ''")
    connection.execute(f"UPDATE topics SET id = {NEW_ID}")  # noqa: S608
    connection.execute("UPDATE catalog SET version = version + 1")
