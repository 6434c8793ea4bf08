"""A reader that shares a group's partitions with the other members."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from streaminfer.bus.protocol import Partition, Poll, Positions, Replaced
from streaminfer.bus.sqlite import groups
from streaminfer.bus.sqlite import positions as kept
from streaminfer.bus.sqlite.catalog import Catalog
from streaminfer.bus.sqlite.reader import SqliteReader
from streaminfer.bus.sqlite.store import Store


class SqliteMember(SqliteReader):
    """Keeps a lease in the file while it polls; what it owns, it knows with the generation since when."""

    def __init__(self, store: Store, catalog: Catalog, who: groups.Identity, session_s: float) -> None:
        super().__init__(store, catalog, {})
        if not who.topics:
            raise ValueError(f"a member of group {who.group!r} needs at least one topic")
        for topic in who.topics:
            catalog.entry(topic)
        self._who = who
        self._session_s = session_s
        self._owned: dict[Partition, int] = {}
        self._generation = -1
        self._beaten_at = store.clock()
        with store.write() as connection:
            catalog.refresh(connection)
            self._id = groups.join(connection, catalog, who, self._beaten_at, session_s)

    @property
    def group(self) -> str:
        return self._who.group

    @property
    def assignment(self) -> frozenset[Partition]:
        return frozenset(self._owned)

    @property
    def store(self) -> Store:
        """The bus of this member: its commits mean nothing on another."""
        return self._store

    def commit(self, positions: Positions) -> None:
        """See protocol.Member."""
        self._check_open()
        prepared = kept.prepare(self._catalog, positions)
        with self._store.write() as connection:
            self.check_owner(connection, positions)
            kept.put(connection, self.group, prepared)

    def check_owner(self, connection: sqlite3.Connection, partitions: Iterable[Partition]) -> None:
        """Raises Fenced unless these partitions are this member's, and were all the time since it last polled."""
        self._check_open()
        claims = {self._catalog.id_of(partition): self._owned.get(partition) for partition in partitions}
        groups.check_owner(connection, self.group, self._id, claims)

    def close(self) -> None:
        """Leaves the group, which frees the partitions at once."""
        if self._closed:
            return
        super().close()
        if self._store.is_open:
            with self._store.write() as connection:
                self._catalog.refresh(connection)
                groups.leave(connection, self._catalog, self.group, self._id)

    def _needs_attention(self) -> bool:
        return not 0 <= self._store.clock() - self._beaten_at < self._session_s / 3

    def _look(self, max_records: int) -> Poll:
        if self._needs_attention() or self._has_news():
            changes = self._beat()
            if changes != Poll():
                return changes  # alone: an error of the reading that follows must not lose them
        return super()._look(max_records)

    def _has_news(self) -> bool:
        with self._store.read() as connection:
            return groups.state(connection, self.group) != (self._generation, self._store.catalog_version)

    def _beat(self) -> Poll:
        now = self._store.clock()
        with self._store.write() as connection:
            self._catalog.refresh(connection)
            member = self._id
            if not groups.beat(connection, self._catalog, self._who, member, now=now, session_s=self._session_s):
                if groups.was_replaced(connection, self._who, member):
                    raise Replaced(f"another member of group {self.group!r} has joined as {self._who.instance!r}")
                member = groups.join(connection, self._catalog, self._who, now, self._session_s)
            generation = groups.state(connection, self.group).generation
            owned = groups.owned(connection, self.group, member)
        self._beaten_at, self._id, self._generation = now, member, generation
        return self._adopt({self._catalog.partition(id_): since for id_, since in owned.items()})

    def _adopt(self, owned: dict[Partition, int]) -> Poll:
        """Takes what is owned now; a partition lost and given back in the meantime is revoked and assigned."""
        revoked = sorted(partition for partition, since in self._owned.items() if owned.get(partition) != since)
        assigned = sorted(partition for partition, since in owned.items() if self._owned.get(partition) != since)
        for partition in revoked:
            del self._ids[partition]
            self._forget(partition)
        for partition in assigned:
            self._ids[partition] = self._catalog.id_of(partition)
        self._owned = owned
        return Poll((), tuple(assigned), tuple(revoked))
