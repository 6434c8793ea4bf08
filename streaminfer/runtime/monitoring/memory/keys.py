"""The keys of a posterior in a temporary SQLite file: a million of them take no memory, and each is found at once.

One thread follows the posterior topic and writes; others read, each with a connection of its own. The rows of a
snapshot and its version are written in one transaction, so that a reader sees a key as of one manifest.
"""

from __future__ import annotations

import logging
import sqlite3
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streaminfer.bus.protocol import Record
from streaminfer.models.keys import label_of
from streaminfer.runtime import names
from streaminfer.runtime.api.snapshot import PosteriorSnapshot
from streaminfer.runtime.following.key_listing import KeySummary, summary
from streaminfer.runtime.following.keys import as_of
from streaminfer.runtime.following.rows import Row, Saw, readable, row_place
from streaminfer.runtime.intact import value_of
from streaminfer.runtime.running.patience import Teller
from streaminfer.spec import Spec
from streaminfer.tables.kinds import kind_of
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire import key_records
from streaminfer.wire.avro import DECLARED, Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.key_records import Decoded, RowPlace

log = logging.getLogger(__name__)

PORTION: Final = 10_000
"""Rows that are written at once."""
MANIFESTS: Final = 8
"""How many versions of a shard's manifest are kept, for readers whose transaction began a moment ago."""
CACHE_KB: Final = 16 << 10
_TABLES: Final = """
CREATE TABLE held (label BLOB, clock INTEGER, value BLOB, PRIMARY KEY (label, clock)) WITHOUT ROWID;
CREATE TABLE staged (shard INTEGER, label BLOB, clock INTEGER, value BLOB);
CREATE TABLE shards (shard INTEGER PRIMARY KEY, version INTEGER);
"""
_UNSTAGE: Final = (
    "INSERT OR REPLACE INTO held SELECT label, clock, value FROM staged WHERE shard = ? ORDER BY rowid",
    "DELETE FROM held WHERE value IS NULL AND (label, clock) IN "
    "(SELECT label, clock FROM staged WHERE shard = ? AND value IS NULL)",
    "DELETE FROM staged WHERE shard = ?",
)
"""Of several rows in one place the last counts; one without a value takes the place away."""


class Building(Exception):
    """The index is not complete yet."""


class KeyIndex:
    """All keys of a posterior, for readers; `rows` are what the followers of its shards write."""

    def __init__(self, spec: Spec, schemas: Schemas = DECLARED) -> None:
        self._spec, self._schemas, self._size = spec, schemas, kind_of(spec).row_size(spec)
        self._folder = tempfile.TemporaryDirectory(prefix="streaminfer-keys-", ignore_cleanup_errors=True)
        self._path = Path(self._folder.name) / "keys.sqlite"
        self._writing = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode=WAL", "synchronous=OFF", f"cache_size=-{CACHE_KB}", "temp_store=FILE"):
            self._writing.execute(f"PRAGMA {pragma}")
        self._writing.executescript(_TABLES)
        self._readers = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._manifests: list[dict[int, Snapshot]] = [{} for _ in range(spec.shards)]
        self.rows = [IndexRows(self, shard) for shard in range(spec.shards)]
        self.n_rows = 0
        """Rows that were read so far."""

    @property
    def complete(self) -> bool:
        """Whether every shard has all that was there when its reading began."""
        return all(rows.whole for rows in self.rows)

    def write(self, shard: int, rows: Sequence[tuple[RowPlace, bytes | None]], staged: bool) -> None:
        """Writes rows, or keeps them for the manifest of their shard."""
        with _transaction(self._writing):
            if staged:
                self._writing.executemany(
                    "INSERT INTO staged VALUES (?, ?, ?, ?)",
                    ((shard, place.label, place.clock, value) for place, value in rows),
                )
            else:
                self._put(rows)

    def show(self, shard: int, rows: Sequence[tuple[RowPlace, bytes | None]], manifest: Snapshot) -> None:
        """Writes the rows that are left of a snapshot and those that were kept, and makes them the newest."""
        kept = dict(list(self._manifests[shard].items())[1 - MANIFESTS :])
        self._manifests[shard] = {**kept, manifest.version: manifest}
        with _transaction(self._writing):
            for statement in _UNSTAGE:
                self._writing.execute(statement, (shard,))
            self._put(rows)
            self._writing.execute("INSERT OR REPLACE INTO shards VALUES (?, ?)", (shard, manifest.version))

    def _put(self, rows: Sequence[tuple[RowPlace, bytes | None]]) -> None:
        self.n_rows += len(rows)
        gone = [(place.label, place.clock) for place, value in rows if value is None]
        there = [(place.label, place.clock, value) for place, value in rows if value is not None]
        self._writing.executemany("DELETE FROM held WHERE label = ? AND clock = ?", gone)
        self._writing.executemany("INSERT OR REPLACE INTO held VALUES (?, ?, ?)", there)

    def find(self, key: str) -> PosteriorSnapshot | None:
        """The posterior of a key; None if no event has it. Raises Building, ValueError."""
        found = self[label_of(key)]
        return found if found.n_events > 0 or self._spec.pooled else None

    def __getitem__(self, label: bytes) -> PosteriorSnapshot:
        """The posterior of a key; one without events is what all keys start from. Raises Building."""
        shard = names.shard_of(self._spec, label)
        with _transaction(self._reading) as connection:
            manifest = self._manifest(connection, shard)
            found = connection.execute("SELECT clock, value FROM held WHERE label = ?", (label,)).fetchall()
        return PosteriorSnapshot(self._spec, as_of(self._spec, manifest, self._decoded(label, found)), label.decode())

    def page(self, after: str, limit: int) -> list[KeySummary]:
        """The first keys after one, in the order of their bytes in UTF-8. Raises Building."""
        with _transaction(self._reading) as connection:
            for shard in range(self._spec.shards):
                self._manifest(connection, shard)
            rows = connection.execute(
                "SELECT label, clock, value FROM held WHERE label > ? ORDER BY label, clock", (after.encode(),)
            )
            return list(self._summaries(rows, limit))

    def _summaries(self, rows: Iterator[tuple[bytes, int, bytes]], limit: int) -> Iterator[KeySummary]:
        label, clocks, n = None, list[tuple[int, bytes]](), 0
        for here, clock, value in rows:
            if label is not None and here != label:
                yield summary(self._spec, label, self._decoded(label, clocks))
                n, clocks = n + 1, []
                if n == limit:
                    return
            label = here
            clocks.append((clock, value))
        if label is not None and n < limit:
            yield summary(self._spec, label, self._decoded(label, clocks))

    def _manifest(self, connection: sqlite3.Connection, shard: int) -> Snapshot:
        """That of the version that a reader's transaction sees; raises Building."""
        found = connection.execute("SELECT version FROM shards WHERE shard = ?", (shard,)).fetchone()
        manifest = None if found is None else self._manifests[shard].get(found[0])
        if manifest is None or not self.complete:
            raise Building
        return manifest

    def _decoded(self, label: bytes, clocks: Sequence[tuple[int, bytes]]) -> dict[int, Row]:
        if not clocks:
            return {}
        values = [value for _, value in clocks]
        found = key_records.decode([label] * len(values), values, self._size, self._schemas)
        return {
            clock: Row(version, numbers)
            for (clock, _), version, numbers in zip(clocks, found.versions, found.numbers, strict=True)
        }

    @property
    def _reading(self) -> sqlite3.Connection:
        """This thread's own connection."""
        connection: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA query_only=ON")
            connection.execute("PRAGMA cache_size=-2048")
            self._readers.connection = connection
            with self._lock:
                self._opened.append(connection)
        return connection

    def decode(self, run: Sequence[tuple[RowPlace, bytes]]) -> Decoded:
        """Checks rows; raises WireError."""
        return key_records.decode([place.label for place, _ in run], [v for _, v in run], self._size, self._schemas)

    def versions(self) -> key_records.Versions:
        return key_records.Versions(self._size, self._schemas)

    def close(self) -> None:
        with self._lock:
            for connection in (self._writing, *self._opened):
                connection.close()
        self._folder.cleanup()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing, and for a reader one state."""
    connection.execute("BEGIN")
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


class IndexRows:
    """What the follower of a shard does with rows: they wait for their manifest, many of them in the file."""

    from_start, junk, arena = True, "cannot be read", None

    def __init__(self, index: KeyIndex, shard: int) -> None:
        self._index, self._shard = index, shard
        self._versions, self._teller = index.versions(), Teller(log)
        self._waiting: dict[RowPlace, bytes | None] = {}
        self._loose = True
        """Whether rows were written without their manifest, as is right while nobody may read them."""
        self.whole = False
        """Whether there is a snapshot that readers may see."""

    def wants(self, key: bytes) -> bool:  # noqa: ARG002 (all of them)
        return True

    def take(self, record: Record, saw: Saw) -> None:
        place, value = row_place(record), value_of(record)
        if value is not None:
            version = self._versions.at(place, value)
            if version == 0:
                self._index.decode([(place, value)])  # which says why
            saw(version)
        self._waiting[place] = value
        if len(self._waiting) >= PORTION:
            self._index.write(self._shard, self._good(), staged=self.whole)
            self._loose = True

    def show(self, manifest: Snapshot) -> bool:
        self._index.show(self._shard, self._good(), manifest)
        self._loose = False
        return True

    def settle(self) -> None:
        """The end of the log was reached: what is there may be read, unless it is a part of a snapshot."""
        self.whole = self.whole or not (self._loose or self._waiting)

    def _good(self) -> list[tuple[RowPlace, bytes | None]]:
        """The rows that wait, without those that cannot be read."""
        waiting, self._waiting = self._waiting, {}
        gone: list[tuple[RowPlace, bytes | None]] = [(place, None) for place, value in waiting.items() if value is None]
        run = [(place, value) for place, value in waiting.items() if value is not None]
        found = [each for part, _ in readable(run, self._index.decode, self._tell) for each in part]
        return [*gone, *found]

    def _tell(self, bad: tuple[RowPlace, bytes], error: WireError) -> None:
        place, _ = bad
        self._teller.tell(f"shard {self._shard}: the row of {place.label[:40]!r} cannot be read: {error}")
