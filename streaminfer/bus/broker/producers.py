"""kafka-python's producer with an end to every wait."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError, RecordListTooLargeError
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

from streaminfer.bus.broker.clients import opened
from streaminfer.bus.broker.connection import Connection
from streaminfer.bus.broker.outbox import Parcel
from streaminfer.bus.broker.topics import OVERHEAD
from streaminfer.bus.declaration import LARGEST_RECORD
from streaminfer.bus.protocol import Partition

log = logging.getLogger(__name__)

BATCH_BYTES: Final = OVERHEAD // 2
LINGER_MS: Final = 50
"""Batches fill while records are added; `deliver` ends the wait."""
CLOSE_S: Final = 2.0


class Producer:
    """Sends parcels. All of them are durable when `deliver` returns. After any error it must be closed."""

    def __init__(self, connection: Connection, transactional_id: str | None = None) -> None:
        self._names = connection.names
        budget, compression = connection.deadline_ms * 9 // 10, connection.settings.compression
        options: dict[str, Any] = {}
        if transactional_id is not None:
            options = {"transactional_id": transactional_id, "transaction_timeout_ms": connection.deadline_ms}
        self._producer = opened(
            KafkaProducer,
            **connection.client_options(),
            **options,
            acks="all",
            enable_idempotence=True,
            max_block_ms=budget,
            delivery_timeout_ms=budget,
            linger_ms=LINGER_MS,
            compression_type=None if compression == "none" else compression,
            batch_size=BATCH_BYTES,
            max_request_size=LARGEST_RECORD + OVERHEAD,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        if transactional_id is not None:
            try:
                self._producer.init_transactions()
            except BaseException:
                self.close()
                raise

    def deliver(self, parcels: Sequence[Parcel], deadline: float) -> list[int]:
        """Sends all and looks at the outcome of each: a transaction commits without records that were lost."""
        futures = []
        places = {partition: self._names.place(partition) for partition in {partition for partition, _ in parcels}}
        for place in places.values():
            self._learn(place, deadline)
        for partition, output in parcels:
            place = places[partition]
            futures.append(
                self._producer.send(
                    place.topic,
                    value=output.value,
                    key=output.key,
                    headers=list(output.headers),
                    partition=place.partition,
                    timestamp_ms=output.timestamp,
                )
            )
        self._producer.flush(_left(deadline))
        return [_placed(future, each.partition, deadline) for future, each in zip(futures, parcels, strict=True)]

    def _learn(self, place: TopicPartition, deadline: float) -> None:
        """The producer refuses a partition that was added after it last looked."""
        while place.partition not in (self._producer.partitions_for(place.topic) or ()):
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(f"{place.topic}-{place.partition} was not found")
            self._producer._metadata.request_update()
            time.sleep(0.02)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata, deadline: float
    ) -> None:
        result = self._producer._transaction_manager.send_offsets_to_transaction(offsets, group)
        self._await(result, deadline, "adding positions to a transaction")

    def commit(self, deadline: float) -> None:
        self._await(self._producer._transaction_manager.begin_commit(), deadline, "committing a transaction")

    def _await(self, result: Any, deadline: float, what: str) -> None:
        """KafkaProducer's own methods wait for ever."""
        self._producer._sender.wakeup()
        if not result.wait(timeout_ms=1000 * _left(deadline)):
            raise KafkaTimeoutError(f"{what} took too long")

    def close(self) -> None:
        """Drops whatever is not sent, and ends the producer's thread."""
        try:
            self._producer.close(timeout=0)
        except KafkaError as error:
            log.debug("records were dropped: %s", error)
            self._producer._sender.force_close()
            self._producer._closed = True
        self._producer._sender.join(CLOSE_S)


def _placed(future: Any, partition: Partition, deadline: float) -> int:
    """The offset that a record got. If one is too large, the broker does not say which partition it was for."""
    try:
        return int(future.get(_left(deadline)).offset)
    except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
        raise type(error)(f"a record for {partition}") from error


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())
