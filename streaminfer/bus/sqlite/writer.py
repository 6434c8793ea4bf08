"""Atomic commits: records, positions and the checks that no newer writer exists, in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Self

from streaminfer.bus.protocol import BusError, Fenced, Member, Output, Positions
from streaminfer.bus.sqlite import groups, log
from streaminfer.bus.sqlite import positions as kept
from streaminfer.bus.sqlite.catalog import Catalog
from streaminfer.bus.sqlite.cleanup import Cleanup
from streaminfer.bus.sqlite.member import SqliteMember
from streaminfer.bus.sqlite.store import Store

Step = Callable[[sqlite3.Connection], None]
"""Something more to check or write inside a transaction."""


class Appender:
    """Appends outputs in one transaction with whatever else belongs to them."""

    def __init__(self, store: Store, catalog: Catalog, cleanup: Cleanup) -> None:
        self._store = store
        self._catalog = catalog
        self._cleanup = cleanup
        self._outbox = log.Outbox(catalog)

    def append(self, outputs: Sequence[Output], first: Step | None = None) -> list[int]:
        """Writes all outputs or nothing, after `first` had its say in the same transaction; returns their offsets."""
        while True:
            batch = self._outbox.prepare(outputs, int(self._store.clock() * 1000))
            with self._store.write() as connection:
                if self._catalog.refresh(connection):
                    continue  # topics have changed since the batch was made ready: a key may belong elsewhere now
                if first is not None:
                    first(connection)
                offsets = log.append(connection, batch)
                self._cleanup.after_append(connection, batch)
                return offsets


class SqliteWriter:
    """The newest writer of its name, until another one is opened."""

    def __init__(self, store: Store, catalog: Catalog, appender: Appender, name: str, session_s: float) -> None:
        self._session_s = session_s
        self._store = store
        self._catalog = catalog
        self._appender = appender
        self._name = name
        self._closed = False
        with store.write() as connection:
            (self._epoch,) = connection.execute(
                """INSERT INTO writers VALUES (?, 1)
                    ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1 RETURNING epoch""",
                (name,),
            ).fetchone()

    def commit(
        self,
        outputs: Sequence[Output],
        positions: Positions | None = None,
        owner: Member | str | None = None,
    ) -> list[int]:
        """See protocol.Writer."""
        if self._closed:
            raise BusError(f"the writer {self._name!r} is closed")
        if positions and owner is None:
            raise ValueError("positions belong to a group: name it with `owner`")
        if isinstance(owner, SqliteMember):
            if owner.store.path != self._store.path:
                raise ValueError(f"the owner is a member on another bus ({owner.store.path})")
        elif owner is not None and not isinstance(owner, str):
            raise ValueError(
                f"the owner must be a member of this bus or the name of a group, not {type(owner).__name__}"
            )
        places = positions or {}
        prepared = kept.prepare(self._catalog, places)

        def first(connection: sqlite3.Connection) -> None:
            self._check_epoch(connection)
            if isinstance(owner, SqliteMember):
                owner.check_owner(connection, places)
                kept.put(connection, owner.group, prepared)
            elif isinstance(owner, str):
                groups.check_vacant(connection, owner, self._store.clock(), self._session_s)
                kept.put(connection, owner, prepared)

        return self._appender.append(outputs, first)

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_epoch(self, connection: sqlite3.Connection) -> None:
        (epoch,) = connection.execute("SELECT epoch FROM writers WHERE name = ?", (self._name,)).fetchone()
        if epoch != self._epoch:
            raise Fenced(f"a newer writer {self._name!r} has been opened")
