"""Atomic commits: one Kafka transaction each, by the newest producer of its name."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, Self

from kafka import TopicPartition
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from streaminfer.bus.broker import bounds
from streaminfer.bus.broker.connection import Connection
from streaminfer.bus.broker.errors import translated
from streaminfer.bus.broker.member import KafkaMember
from streaminfer.bus.broker.needs import Needs
from streaminfer.bus.broker.outbox import Outbox, Parcel
from streaminfer.bus.broker.producers import Producer
from streaminfer.bus.broker.topics import Catalog
from streaminfer.bus.protocol import BusError, Fenced, Member, Output, Positions, Unavailable

NOBODY: Final = "no-member"
"""A member that no group has: the broker takes its positions only if the group is empty."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class KafkaWriter:
    """The newest writer of its name, until another one is opened or a commit fails.

    After an error the producer cannot be trusted, as positions of an aborted transaction are committed by the next one.
    A new producer would fence a newer writer. So the writer is done, and its owner decides.
    """

    def __init__(self, connection: Connection, catalog: Catalog, outbox: Outbox, name: str) -> None:
        self._connection, self._catalog, self._outbox, self._name = connection, catalog, outbox, name
        self._closed = False
        self._needs = connection.needs("Write", "transactional-id", name)
        with translated(f"opening the writer {name!r}", self._needs):
            self._producer: Producer | None = Producer(connection, connection.names.outside(name))
        try:
            # After an unconfirmed commit its owner reads the logs to learn what was written: it must be visible.
            self._await_visible({}, None, time.monotonic() + connection.deadline_s)
        except BaseException:
            self._drop()
            raise

    def commit(
        self,
        outputs: Sequence[Output],
        positions: Positions | None = None,
        owner: Member | str | None = None,
    ) -> list[int]:
        """See protocol.Writer."""
        self._connection.check_open()
        if self._closed:
            raise BusError(f"the writer {self._name!r} is closed")
        if positions and owner is None:
            raise ValueError("positions belong to a group: name it with `owner`")
        if self._producer is None:
            raise Fenced(f"a commit of the writer {self._name!r} has failed: open a new writer")
        offsets = bounds.prepare(self._connection, self._catalog, positions or {})
        parcels = self._outbox.prepare(outputs)
        group = self._group_of(owner, positions or {})
        if not parcels and not offsets:
            return []
        deadline = time.monotonic() + self._connection.deadline_s
        try:
            with translated(f"a commit of the writer {self._name!r}", self._all_needs(parcels, positions or {}, owner)):
                placed = self._transact(self._producer, parcels, offsets, group, owner, deadline)
            for parcel, offset in zip(parcels, placed, strict=True):
                self._connection.hidden[parcel.partition] = offset
            self._await_visible(positions or {}, owner, deadline)
        except BaseException:
            self._drop()
            raise
        return placed

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _group_of(self, owner: Member | str | None, positions: Positions) -> ConsumerGroupMetadata | None:
        if isinstance(owner, KafkaMember):
            if owner.connection.address != self._connection.address:
                raise ValueError(f"the owner is a member on another bus ({owner.connection.address})")
            return owner.check_owner(positions)
        if isinstance(owner, str):
            return ConsumerGroupMetadata(self._connection.names.outside(owner), -1, NOBODY)
        if owner is not None:
            kind = type(owner).__name__
            raise ValueError(f"the owner must be a member of this bus or the name of a group, not {kind}")
        return None

    def _transact(
        self,
        producer: Producer,
        parcels: Sequence[Parcel],
        offsets: Offsets,
        group: ConsumerGroupMetadata | None,
        owner: Member | str | None,
        deadline: float,
    ) -> list[int]:
        producer.begin()
        placed = producer.deliver(parcels, deadline)
        if offsets and group is not None:
            producer.send_offsets(offsets, group, deadline)
        elif isinstance(owner, KafkaMember):
            owner.verify()
        producer.commit(deadline)
        return placed

    def _all_needs(self, parcels: Sequence[Parcel], positions: Positions, owner: Member | str | None) -> Needs:
        connection = self._connection
        found = self._needs + connection.needs("Write", "topic", *(parcel.partition.topic for parcel in parcels))
        group = owner.group if isinstance(owner, KafkaMember) else owner
        if isinstance(group, str):
            found += connection.needs("Read", "group", group)
        return found + connection.needs("Read", "topic", *(partition.topic for partition in positions))

    def _await_visible(self, positions: Positions, owner: Member | str | None, deadline: float) -> None:
        """The broker answers a commit before it has marked it in the logs: what was committed must be there to read."""
        group = owner.group if isinstance(owner, KafkaMember) else owner
        pause = 0.002
        while not self._visible(positions, group):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"a commit of the writer {self._name!r} is hidden behind an unfinished transaction of another"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.1)

    def _visible(self, positions: Positions, group: object) -> bool:
        hidden = self._connection.hidden
        for partition, end in bounds.ends(self._connection, hidden).items():
            if end > hidden[partition]:
                del hidden[partition]
        if hidden:
            return False
        if not positions:
            return True
        kept = bounds.committed(self._connection, str(group))
        return all(kept.get(partition) == position for partition, position in positions.items())

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()
