"""Topics and partitions, kept in memory for as long as the file's catalog has the same version."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from streaminfer.bus.declaration import check, is_kept_longer, missing
from streaminfer.bus.protocol import Partition, Topic, UnknownTopic
from streaminfer.bus.sqlite import schema
from streaminfer.bus.sqlite.store import Store


class Entry(NamedTuple):
    """A topic, the ids of its partitions in the file, by index, and its own, which no other topic ever has."""

    topic: Topic
    ids: tuple[int, ...]
    topic_id: str


class Catalog:
    """What topics there are. A copy may be old outside a transaction, never inside one after `refresh`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.version = 0
        self._entries: dict[str, Entry] = {}
        self._partitions: dict[int, Partition] = {}

    def refresh(self, connection: sqlite3.Connection) -> bool:
        """Brings the copy up to the current transaction's version; true if it was old."""
        if self.version == self._store.catalog_version:
            return False
        ids: dict[str, list[int]] = {}
        partitions: dict[int, Partition] = {}
        for id_, topic, number in connection.execute("SELECT id, topic, number FROM partitions ORDER BY topic, number"):
            ids.setdefault(topic, []).append(id_)
            partitions[id_] = Partition(topic, number)
        self._entries = {
            name: Entry(Topic(name, len(ids[name]), *kept), tuple(ids[name]), topic_id)
            for name, topic_id, *kept in connection.execute(
                "SELECT name, id, cleanup, retention_ms, max_bytes FROM topics"
            )
        }
        self._partitions = partitions
        self.version = self._store.catalog_version
        return True

    def entries(self) -> dict[str, Entry]:
        """Every topic, as it is now."""
        with self._store.read() as connection:
            self.refresh(connection)
        return self._entries

    def known(self) -> list[Entry]:
        """Every topic, as the last `refresh` saw it."""
        return list(self._entries.values())

    def entry(self, topic: str) -> Entry:
        """A topic that is known here or has been made elsewhere in the meantime; raises UnknownTopic."""
        found = self._entries.get(topic) or self.entries().get(topic)
        if found is None:
            raise UnknownTopic(f"topic {topic!r} does not exist")
        return found

    def id_of(self, partition: Partition) -> int:
        """The file's id of a partition; raises UnknownTopic."""
        ids = self.entry(partition.topic).ids
        if partition.index >= len(ids):
            ids = self.entries()[partition.topic].ids
        if not 0 <= partition.index < len(ids):
            raise UnknownTopic(f"topic {partition.topic!r} has partitions 0 to {len(ids) - 1}, not {partition.index}")
        return ids[partition.index]

    def partition(self, id_: int) -> Partition:
        """The partition with an id that was read in a transaction after `refresh`."""
        return self._partitions[id_]

    def create(self, topics: Sequence[Topic]) -> None:
        """Makes what is missing, all or nothing; a catalog that has everything is only read."""
        for topic in topics:
            check(topic)
        if len({topic.name for topic in topics}) < len(topics):
            raise ValueError(f"a topic is declared twice among {', '.join(topic.name for topic in topics)}")
        entries = self.entries()
        if not any(_lacks(topic, _kept(entries.get(topic.name))) for topic in topics):
            return
        with self._store.write() as connection:
            self.refresh(connection)
            for topic in topics:
                self._make(connection, topic)
            connection.execute("UPDATE catalog SET version = version + 1")

    def _make(self, connection: sqlite3.Connection, topic: Topic) -> None:
        entry = self._entries.get(topic.name)
        first = topic.partitions - missing(topic, _kept(entry))
        if entry is None:
            row = (topic.name, topic.cleanup, topic.retention_ms, topic.max_bytes)
            connection.execute(f"INSERT INTO topics VALUES (?, ?, ?, ?, {schema.NEW_ID})", row)  # noqa: S608
        elif is_kept_longer(topic, entry.topic):
            connection.execute("UPDATE topics SET retention_ms = ? WHERE name = ?", (topic.retention_ms, topic.name))
        connection.executemany(
            "INSERT INTO partitions (topic, number) VALUES (?, ?)",
            [(topic.name, number) for number in range(first, topic.partitions)],
        )


def _lacks(topic: Topic, kept: Topic | None) -> bool:
    """Whether something is to be done so that a topic is as declared."""
    return missing(topic, kept) > 0 or (kept is not None and is_kept_longer(topic, kept))


def _kept(entry: Entry | None) -> Topic | None:
    return None if entry is None else entry.topic
