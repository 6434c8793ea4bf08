"""A reader that shares a group's partitions with the other members."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.admin import MemberToRemove
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import ConsumerGroupMetadata

from streaminfer.bus.broker import bounds
from streaminfer.bus.broker.clients import opened
from streaminfer.bus.broker.connection import Connection
from streaminfer.bus.broker.errors import translated
from streaminfer.bus.broker.fetching.reader import KafkaReader, consumer_options
from streaminfer.bus.broker.joining import keep_join
from streaminfer.bus.broker.topics import Catalog
from streaminfer.bus.protocol import BusError, Fenced, Partition, Poll, Positions, Replaced

log = logging.getLogger(__name__)

IDLE_S: Final = 3.0
"""Seconds without a partition after which a member asks for another look; doubled each time."""
MOST_IDLE_S: Final = 300.0


class Identity(NamedTuple):
    """Which group, what it reads, and the name under which a successor takes over."""

    group: str
    topics: tuple[str, ...]
    instance: str | None


class _Changes(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """What a rebalance took and gave. It is called while `poll` waits, on the client's own thread."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.taken: set[TopicPartition] = set()
        self.any = False

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self.taken.update(revoked)
        self.any = True

    on_partitions_lost = on_partitions_revoked

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self.any = True
        for place in assigned:
            # Asleep and with any position at all, so that the client never asks for the group's.
            self._consumer.pause(place)
            self._consumer.seek(place, 0)


class KafkaMember(KafkaReader):
    """Its partitions are the broker's decision; what it owns is what its polls have reported."""

    def __init__(self, connection: Connection, catalog: Catalog, who: Identity) -> None:
        if not who.topics:
            raise ValueError(f"a member of group {who.group!r} needs at least one topic")
        for topic in who.topics:
            catalog.count(topic)
        self._catalog, self._who = catalog, who
        session_ms = int(connection.session_s * 1000)
        needs = connection.needs("Read", "group", who.group) + connection.needs("Read", "topic", *who.topics)
        with translated(f"joining group {who.group!r}", needs):
            consumer = opened(
                KafkaConsumer,
                **consumer_options(connection),
                group_id=connection.names.outside(who.group),
                group_instance_id=who.instance,
                partition_assignment_strategy=[CooperativeStickyAssignor],
                session_timeout_ms=session_ms,
                max_poll_interval_ms=session_ms,
                heartbeat_interval_ms=max(100, session_ms // 5),
            )
        super().__init__(connection, {}, consumer)
        self._needs = needs
        self._owned: set[Partition] = set()
        self._changes = _Changes(consumer)
        self._replaced = False
        self._verified_at = time.monotonic()
        self._patience_s = IDLE_S
        self._join_again_at = time.monotonic() + IDLE_S
        """When a member that owns nothing asks the group for another look."""
        consumer.subscribe([connection.names.outside(topic) for topic in who.topics], listener=self._changes)

    @property
    def group(self) -> str:
        return self._who.group

    @property
    def assignment(self) -> frozenset[Partition]:
        return frozenset(self._owned)

    @property
    def connection(self) -> Connection:
        return self._connection

    def commit(self, positions: Positions) -> None:
        """See protocol.Member."""
        self._check_open()
        prepared = bounds.prepare(self._connection, self._catalog, positions)
        self.check_owner(positions)
        with translated(f"committing positions of group {self.group!r}", self._needs):
            self._consumer.commit(prepared, timeout_ms=self._connection.deadline_ms)

    def check_owner(self, partitions: Iterable[Partition]) -> ConsumerGroupMetadata:
        """What the broker checks a commit against; raises Fenced if this member knows that it lost a partition."""
        self._check_open()
        if self._replaced:
            raise Replaced(f"another member of group {self.group!r} has joined as {self._who.instance!r}")
        lost = sorted(set(partitions) - self._owned)
        known = self._consumer.group_metadata()
        if lost or known.generation_id < 0 or not known.member_id:
            # Without a generation the broker would take the commit as one of a group without members.
            what = ", ".join(map(str, lost)) or "any partition"
            raise Fenced(f"this member of group {self.group!r} does not own {what}")
        return known

    def verify(self) -> None:
        """Asks the broker whether this process still is the member; raises Fenced or Replaced.

        kafka-python only stops its heartbeats when another process takes over its instance name.
        """
        self._verified_at = time.monotonic()
        mine = self._consumer.group_metadata().member_id
        if not mine:
            return
        members = bounds.members(self._connection, self.group)
        if mine in members:
            return
        if self._who.instance is not None and self._who.instance in members.values():
            self._replaced = True
            raise Replaced(f"another member of group {self.group!r} has joined as {self._who.instance!r}")
        if self._who.instance is not None:
            raise Fenced(f"{self._who.instance!r} is no longer a member of group {self.group!r}")

    def close(self) -> None:
        """Leaves the group, which frees the partitions at once."""
        if self._closed:
            return
        member = self._consumer.group_metadata().member_id
        try:
            super().close()
            if self._who.instance is not None and member and not self._replaced:
                self._leave(member)
        except BusError as error:
            log.info(
                "group %s was not left cleanly; the broker removes this member when its session ends: %s",
                self.group,
                error,
            )

    def _leave(self, member: str) -> None:
        """Static members do not leave by themselves. Both names are given, so a successor is never removed."""
        leaver = MemberToRemove(member_id=member, group_instance_id=self._who.instance)
        name = self._names.outside(self.group)
        needs = self._connection.needs("Read", "group", self.group)
        self._connection.ask("leaving the group", lambda admin: admin.remove_group_members(name, [leaver]), needs)

    def _look(self, wait: float, max_records: int) -> Poll:
        if self._replaced:
            raise Replaced(f"another member of group {self.group!r} has joined as {self._who.instance!r}")
        due = time.monotonic() - self._verified_at > self._connection.session_s / 20
        if self._who.instance is not None and self._owned and due:
            self.verify()
        if not self._owned and time.monotonic() >= self._join_again_at:
            self._join_again()
        if not self._changes.any:
            self._fetch(wait)
        if self._changes.any:
            return self._adopt()  # alone: an error of the reading that follows must not lose it
        return Poll(tuple(self._hand_out(max_records)))

    def _join_again(self) -> None:
        """A successor under the name of a leader that was killed before it knew the topics is given nothing, for ever.

        The group is at rest then: the broker hands out what that leader had decided. When a leader joins again it
        decides anew. For others nothing changes, so members that have nothing to do may ask too, ever less often.
        """
        known = self._consumer.group_metadata()
        if known.member_id and known.generation_id >= 0:
            self._patience_s = min(2 * self._patience_s, MOST_IDLE_S)
            self._consumer._coordinator.request_rejoin()
        self._join_again_at = time.monotonic() + self._patience_s

    def _ask(self, wait: float) -> dict[Any, list[Any]] | None:
        try:
            found = super()._ask(wait)
        except Replaced:
            self._replaced = True
            raise
        finally:
            keep_join(self._consumer)
        if self._changes.any:
            self._rewind()
            return None
        return found

    def _adopt(self) -> Poll:
        """Takes what is owned now; a partition lost and given back in the meantime is revoked and assigned."""
        taken = {self._names.partition(place) for place in self._changes.taken}
        now = {self._names.partition(place) for place in self._consumer.assignment()}
        revoked = self._owned & taken | self._owned - now
        assigned = now - (self._owned - revoked)
        self._changes.taken, self._changes.any = set(), False
        for partition in revoked:
            self._forget(partition)
            self._ahead.pop(partition, None)
        self._owned = now
        if now:  # a member that was given nothing once more has not waited less for it
            self._patience_s = IDLE_S
        self._join_again_at = time.monotonic() + self._patience_s
        return Poll((), tuple(sorted(assigned)), tuple(sorted(revoked)))

    def _place(self, partition: Partition) -> None:
        """A partition that was taken away, but not yet reported so, has no place to be put."""
        if self._names.place(partition) in self._consumer.assignment():
            super()._place(partition)

    def _is_mine(self, partition: Partition) -> bool:
        return partition in self._owned
