"""The bus: logs of records, groups that share them out, and one atomic commit.

Every implementation has these operations and errors, and passes the suite in tests/contracts/test_bus.py.
The words are Kafka's, if Kafka has one. A *position* is the place of a reader: the offset of the next record it may
get. Positions have holes (compaction, transaction markers), so progress is told in positions, never in offsets of
records seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, Self

Headers = tuple[tuple[str, bytes], ...]


class Partition(NamedTuple):
    """One log of a topic."""

    topic: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which a partition has no use for

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was read. `timestamp` is in milliseconds since 1970; a value of None is a tombstone."""

    partition: Partition
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Unreadable(Record):
    """In place of what the bus could not read; `value` has the bytes of that record, or of the batch it was in."""

    fault: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """A record to be written. Without `partition` the key decides, without a key the bus does."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Headers = ()
    timestamp: int | None = None


class Slice(NamedTuple):
    """What one poll read of one partition: all visible records of [begin, end), maybe none."""

    partition: Partition
    begin: int
    end: int
    records: tuple[Record, ...]


class Poll(NamedTuple):
    """What a poll brought. A reader that is not a member of a group never has changes of partitions."""

    slices: tuple[Slice, ...] = ()
    assigned: tuple[Partition, ...] = ()
    revoked: tuple[Partition, ...] = ()


class Position(NamedTuple):
    """A position kept on the bus for a group, with a note of at most 4,000 characters."""

    offset: int
    note: str = ""


Positions = Mapping[Partition, Position]


@dataclass(frozen=True, slots=True)
class Topic:
    """How a topic is kept. `retention_ms` of None is for ever.

    A compacted topic keeps the newest of each key, and none for longer than its retention."""

    name: str
    partitions: int
    cleanup: Literal["delete", "compact"] = "delete"
    retention_ms: int | None = None
    max_bytes: int = 1 << 20
    """The largest record: key, value and headers together."""


class BusError(Exception):
    """Something the bus could not do. After any error of a commit, whether it took effect is unknown."""


class Unavailable(BusError):
    """The bus did not answer in time (a broker is away, the lock is held); trying again later may help."""


class Full(Unavailable):
    """The bus is there, but its disk takes no more; it will accept more when there is room again."""


class Fenced(BusError):
    """A newer writer or member has taken over this writer's name, or this member's partitions. Nothing was written."""


class Replaced(Fenced):
    """Another process has joined the group under this member's instance name; this one must end."""


class OutOfRange(BusError):
    """A position outside the log: records before `start` were removed, records from `end` on never were."""

    def __init__(self, partition: Partition, position: int, start: int, end: int) -> None:
        super().__init__(f"position {position} of {partition} is outside its log [{start}, {end})")
        self.partition, self.position, self.start, self.end = partition, position, start, end


class TooLarge(BusError):
    """A record is larger than the bus takes. Nothing was written."""


class UnknownTopic(BusError):
    """The topic or partition does not exist."""


class TopicMismatch(BusError):
    """A topic exists but is kept in another way than declared."""


class Reader(Protocol):
    """Reads partitions of its choice. Sees only what was committed."""

    def poll(self, timeout: float, max_records: int = 10_000) -> Poll:
        """Waits up to `timeout` seconds for anything to report; a slice may have moved without records.

        Raises OutOfRange if a position has left the log; `seek` first, then poll again. What a poll returns
        is bounded by `max_records` and by the bus's own limit in bytes (one record at least), fairly over partitions.
        """

    def seek(self, partition: Partition, position: int) -> None: ...

    def position(self, partition: Partition) -> int: ...

    def pause(self, partition: Partition) -> None:
        """No records of this partition until `resume`; keeps position and ownership."""

    def resume(self, partition: Partition) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Member(Reader, Protocol):
    """A reader whose partitions are shared out among the members of its group.

    A partition that `poll` reports as assigned brings no records until its owner seeks a position in it. Membership is
    kept alive by polling. A member that is silent for longer than its session loses its partitions, and learns it from
    the next poll as `revoked`. A member that joins under an `instance` name takes over the partitions of its
    predecessor of that name at once. The predecessor's next poll raises Replaced.
    """

    @property
    def group(self) -> str: ...

    @property
    def assignment(self) -> frozenset[Partition]: ...

    def commit(self, positions: Positions) -> None:
        """Keeps positions for the group; raises Fenced if this member no longer owns one of the partitions."""


class Writer(Protocol):
    """Commits under a name; opening a writer fences every earlier writer of that name."""

    def commit(
        self,
        outputs: Sequence[Output],
        positions: Positions | None = None,
        owner: Member | str | None = None,
    ) -> list[int]:
        """Writes all outputs and positions, or nothing; returns the outputs' offsets.

        `positions` belong to `owner`: a member (whose ownership is checked in the same transaction) or the name of
        a group without members. Raises Fenced if a newer writer or owner exists.
        """

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


class Bus(Protocol):
    """A connection to a bus. Used by one thread; any number of processes may have one each."""

    max_record_bytes: int
    """The largest record that every topic takes: key, value and headers together."""

    def create(self, topics: Sequence[Topic]) -> None:
        """Makes topics that are missing, adds partitions if more are declared, raises TopicMismatch otherwise."""

    def topics(self) -> dict[str, Topic]:
        """Every topic there is, as it is kept."""

    def public_name(self, topic: str) -> str:
        """What other programs on the same log, which know no namespace, call a topic of this bus."""

    def topic_id(self, topic: str) -> str:
        """Which incarnation of a topic this is: one that was deleted and made again under its name has another id."""

    def starts(self, topic: str) -> dict[int, int]:
        """The first position of each partition's log."""

    def ends(self, topic: str) -> dict[int, int]:
        """The position after the last committed record of each partition."""

    def hidden(self, topic: str) -> dict[int, int]:
        """How many positions after the end of each partition an unfinished transaction of any writer holds back.

        Committed records may be among them: a reader that must know all that was committed waits until there are none.
        """

    def publish(self, outputs: Sequence[Output]) -> list[int]:
        """Writes records and waits until all are durable; returns their offsets.

        Not atomic, and after an error some may be there: what reads them must bear repetition.
        """

    def reader(self, positions: Mapping[Partition, int]) -> Reader: ...

    def member(self, group: str, topics: Sequence[str], instance: str | None = None) -> Member: ...

    def writer(self, name: str) -> Writer: ...

    def committed(self, group: str) -> dict[Partition, Position]:
        """The positions kept for a group."""

    def delete_before(self, partition: Partition, position: int) -> None:
        """Removes the records before a position, as retention does."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...
