"""A member of the Kafka bus that is given nothing asks again, if its group would never give it anything."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from streaminfer.bus.broker.fetching.reader import KafkaReader
from streaminfer.bus.broker.member import KafkaMember
from streaminfer.bus.broker.settings import Address
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Member, Partition, Topic

P0 = Partition("t", 0)
PATIENCE_S = 60.0


class NoTopics:
    """The cluster as a leader sees it before it has heard of any topic."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def partitions_for_topic(self, topic: str) -> None:
        return None


def joined(member: Member) -> KafkaMember:
    """A member that the broker knows, whatever it owns."""
    assert isinstance(member, KafkaMember)
    deadline = time.monotonic() + PATIENCE_S
    while member._consumer.group_metadata().generation_id < 0:
        assert time.monotonic() < deadline, "the group never came together"
        member.poll(0.1)
    return member


def test_the_successor_of_a_leader_that_knew_no_topics_gets_them(
    kafka_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 of a service that has just started did this in 1 of 20 cases, and its partitions never had an owner
    again."""
    with KafkaBus(Address((kafka_address,), uuid.uuid4().hex[:8])) as bus:
        bus.create([Topic("t", 1)])
        real = CooperativeStickyAssignor.assign
        with monkeypatch.context() as patch:
            patch.setattr(CooperativeStickyAssignor, "assign", lambda self, c, m: real(self, NoTopics(c), m))
            first = joined(bus.member("g", ["t"], "one"))
            assert not first.assignment
            KafkaReader.close(first)  # as a killed one: it does not leave the group
        with bus.member("g", ["t"], "one") as second:
            deadline = time.monotonic() + PATIENCE_S
            while P0 not in second.assignment:
                assert time.monotonic() < deadline, "nobody owns the partition"
                second.poll(0.1)
