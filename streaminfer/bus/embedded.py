"""The embedded bus: a directory with one SQLite file, shared by the processes of one machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from streaminfer.bus.protocol import BusError, OutOfRange, Output, Partition, Position, Topic, UnknownTopic
from streaminfer.bus.sqlite import cleanup, log
from streaminfer.bus.sqlite import positions as kept
from streaminfer.bus.sqlite.catalog import Catalog
from streaminfer.bus.sqlite.groups import Identity
from streaminfer.bus.sqlite.member import SqliteMember
from streaminfer.bus.sqlite.reader import SqliteReader
from streaminfer.bus.sqlite.store import Store
from streaminfer.bus.sqlite.writer import Appender, SqliteWriter


class EmbeddedBus:
    """One connection to the bus in `directory`, which is made if it is missing.

    `session_s`: how long a silent member keeps its partitions. `busy_s`: how long a held lock is waited for.
    `clock` (seconds since 1970) stamps records and leases; `monotonic` and `sleep` are for waiting.
    """

    max_record_bytes: int = 1 << 20

    def __init__(
        self,
        directory: str | Path,
        *,
        session_s: float = 10.0,
        busy_s: float = 5.0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session_s, self._directory = session_s, directory
        self._store = Store(Path(directory), busy_s, clock, monotonic, sleep)
        self._catalog = Catalog(self._store)
        self._cleanup = cleanup.Cleanup(self._store, self._catalog)
        self._appender = Appender(self._store, self._catalog, self._cleanup)
        self._members: list[SqliteMember] = []

    def __str__(self) -> str:
        return f"embedded:{self._directory}"

    def create(self, topics: Sequence[Topic]) -> None:
        self._catalog.create(topics)

    def topics(self) -> dict[str, Topic]:
        return {name: entry.topic for name, entry in self._catalog.entries().items()}

    def public_name(self, topic: str) -> str:
        return topic

    def topic_id(self, topic: str) -> str:
        entry = self._catalog.entries().get(topic)
        if entry is None:
            raise UnknownTopic(f"topic {topic!r} does not exist")
        return entry.topic_id

    def starts(self, topic: str) -> dict[int, int]:
        return {index: start for index, (start, _) in self._bounds(topic).items()}

    def ends(self, topic: str) -> dict[int, int]:
        return {index: end for index, (_, end) in self._bounds(topic).items()}

    def hidden(self, topic: str) -> dict[int, int]:
        """Transactions of SQLite are never seen unfinished."""
        return dict.fromkeys(self.ends(topic), 0)

    def publish(self, outputs: Sequence[Output]) -> list[int]:
        return self._appender.append(outputs)

    def reader(self, positions: Mapping[Partition, int]) -> SqliteReader:
        return SqliteReader(self._store, self._catalog, positions)

    def member(self, group: str, topics: Sequence[str], instance: str | None = None) -> SqliteMember:
        member = SqliteMember(self._store, self._catalog, Identity(group, tuple(topics), instance), self._session_s)
        self._members.append(member)
        return member

    def writer(self, name: str) -> SqliteWriter:
        return SqliteWriter(self._store, self._catalog, self._appender, name, self._session_s)

    def committed(self, group: str) -> dict[Partition, Position]:
        with self._store.read() as connection:
            return kept.load(connection, group)

    def delete_before(self, partition: Partition, position: int) -> None:
        id_ = self._catalog.id_of(partition)
        if self._catalog.entry(partition.topic).topic.cleanup == "compact":
            raise BusError(
                f"topic {partition.topic!r} is compacted: only newer records of their keys replace its records"
            )
        with self._store.write() as connection:
            start, end = log.bounds(connection, id_)
            if not 0 <= position <= end:
                raise OutOfRange(partition, position, start, end)
            cleanup.trim(connection, id_, position)

    def compact(self, topic: str) -> None:
        """Compacts a topic now; appends do it by themselves every few hundred records."""
        entry = self._catalog.entry(topic)
        if entry.topic.cleanup != "compact":
            raise BusError(f"topic {topic!r} is not a compacted one")
        with self._store.write() as connection:
            for id_ in entry.ids:
                cleanup.compact(connection, id_, int(self._store.clock() * 1000))

    def retain(self) -> None:
        """Removes all records past their topic's retention now; appends do it by themselves twice a minute."""
        more = True
        while more:
            with self._store.write() as connection:
                self._catalog.refresh(connection)
                more = self._cleanup.retain(connection)

    def close(self) -> None:
        """Its members leave their groups, and the file is released whatever happens."""
        try:
            while self._members:
                self._members.pop().close()
        finally:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        entry = self._catalog.entries().get(topic)
        if entry is None:
            raise UnknownTopic(f"topic {topic!r} does not exist")
        with self._store.read() as connection:
            return {index: log.bounds(connection, id_) for index, id_ in enumerate(entry.ids)}
