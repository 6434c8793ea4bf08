"""A file of records as a bus that can only be read, as the bus that they were copied from."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Self

from streaminfer.bus.places import Places
from streaminfer.bus.protocol import (
    BusError,
    Member,
    OutOfRange,
    Output,
    Partition,
    Poll,
    Position,
    Positions,
    Record,
    Slice,
    Topic,
    UnknownTopic,
)
from streaminfer.bus.recorded import framing
from streaminfer.bus.recorded.framing import Contents


class RecordedBus:
    """The records of some partitions, in memory; positions are their numbers."""

    max_record_bytes: int = 1 << 20

    def __init__(self, contents: Contents, name: str) -> None:
        self.about = contents.about
        self._topics, self._records, self._name = contents.topics, contents.records, name

    @classmethod
    def of_file(cls, path: Path) -> RecordedBus:
        """Raises FileFault, or OSError if the file cannot be opened."""
        return cls(framing.read(path), f"file:{path}")

    def __str__(self) -> str:
        return self._name

    def topics(self) -> dict[str, Topic]:
        return {name: Topic(name, count, "compact") for name, count in self._topics.items()}

    def public_name(self, topic: str) -> str:
        return topic

    def topic_id(self, topic: str) -> str:
        self._check(topic)
        return "recorded"

    def starts(self, topic: str) -> dict[int, int]:
        return dict.fromkeys(range(self._check(topic)), 0)

    def ends(self, topic: str) -> dict[int, int]:
        return {index: len(self.records(Partition(topic, index))) for index in range(self._check(topic))}

    def hidden(self, topic: str) -> dict[int, int]:
        return self.starts(topic)

    def reader(self, positions: Mapping[Partition, int]) -> RecordedReader:
        return RecordedReader({partition: self.records(partition) for partition in positions}, positions)

    def writer(self, name: str) -> Sealed:  # noqa: ARG002 (whoever restores from a file has a writer, and never commits)
        return Sealed(self)

    def member(self, group: str, topics: Sequence[str], instance: str | None = None) -> Member:  # noqa: ARG002
        self.refuse()

    def committed(self, group: str) -> dict[Partition, Position]:  # noqa: ARG002 (a file has no groups)
        return {}

    def create(self, topics: Sequence[Topic]) -> None:
        if {each.name for each in topics} - self._topics.keys():
            self.refuse()

    def publish(self, outputs: Sequence[Output]) -> list[int]:  # noqa: ARG002
        self.refuse()

    def delete_before(self, partition: Partition, position: int) -> None:  # noqa: ARG002
        self.refuse()

    def close(self) -> None:
        """There is nothing to release."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def refuse(self) -> NoReturn:
        raise BusError(f"{self}: a file of records can only be read; is --bus correct?")

    def _check(self, topic: str) -> int:
        if topic not in self._topics:
            raise UnknownTopic(f"topic {topic!r} is not in {self}")
        return self._topics[topic]

    def records(self, partition: Partition) -> tuple[Record, ...]:
        """Those of one partition."""
        if not 0 <= partition.index < self._check(partition.topic):
            raise UnknownTopic(f"{partition} is not in {self}")
        return self._records.get(partition, ())


class RecordedReader(Places):
    """Positions in the records of a file."""

    def __init__(self, logs: Mapping[Partition, tuple[Record, ...]], positions: Mapping[Partition, int]) -> None:
        super().__init__(positions)
        self._logs = logs

    def poll(self, timeout: float, max_records: int = 10_000) -> Poll:
        """See protocol.Reader. At the end it waits, as nothing will ever come."""
        self._check_open()
        for partition, begin in list(self._positions.items()):
            log = self._logs[partition]
            if not 0 <= begin <= len(log):
                raise OutOfRange(partition, begin, 0, len(log))
            if partition not in self._paused and begin < len(log):
                end = min(len(log), begin + max_records)
                self._served(partition, end)
                return Poll((Slice(partition, begin, end, log[begin:end]),))
        time.sleep(timeout)
        return Poll()


class Sealed:
    """A writer of a file, which it never writes to."""

    def __init__(self, bus: RecordedBus) -> None:
        self._bus = bus

    def commit(
        self,
        outputs: Sequence[Output],  # noqa: ARG002
        positions: Positions | None = None,  # noqa: ARG002
        owner: Member | str | None = None,  # noqa: ARG002
    ) -> list[int]:
        self._bus.refuse()

    def close(self) -> None:
        """There is nothing to release."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
