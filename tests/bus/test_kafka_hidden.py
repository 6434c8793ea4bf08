"""Commits of the Kafka bus behind an unfinished transaction of another program: done, but not visible yet."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer

from streaminfer.bus.broker.settings import Address
from streaminfer.bus.kafka import KafkaBus
from streaminfer.bus.protocol import Output, Partition, Topic, Unavailable

P0 = Partition("t", 0)


@pytest.fixture
def bus(kafka_address: str) -> Iterator[KafkaBus]:
    with KafkaBus(Address((kafka_address,), uuid.uuid4().hex[:8]), session_s=6, deadline_s=3) as opened:
        opened.create([Topic("t", 1)])
        yield opened


@pytest.fixture
def foreign(kafka_address: str) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(
        bootstrap_servers=kafka_address, transactional_id=uuid.uuid4().hex, enable_idempotence=True, acks="all"
    )
    producer.init_transactions()
    yield producer
    producer.close()


def test_no_writer_opens_before_the_commits_of_its_connection_can_be_read(
    bus: KafkaBus, foreign: KafkaProducer
) -> None:
    """A writer that is opened after a commit without answer reads the logs, and must find what was written."""
    foreign.begin_transaction()
    foreign.send(bus._connection.names.outside("t"), b"foreign").get(10)
    with bus.writer("w") as writer, pytest.raises(Unavailable, match="unfinished transaction"):
        writer.commit([Output("t", b"ours")])
    with pytest.raises(Unavailable, match="unfinished transaction"):
        bus.writer("w")
    foreign.abort_transaction()
    with bus.writer("w"), bus.reader({P0: 0}) as reader:
        end, found = bus.ends("t")[0], []
        while reader.position(P0) < end:
            found += [record.value for part in reader.poll(1).slices for record in part.records]
    assert found == [b"ours"]
