"""Reading partitions of one's choice.

kafka-python's own position moves when a poll returns, and past transaction markers without any record. The position
here is what was handed out; kafka-python stands at the end of what was fetched, and is put back there after an error.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from kafka import KafkaConsumer
from kafka.errors import KafkaError, OffsetOutOfRangeError

from streaminfer.bus.broker import bounds
from streaminfer.bus.broker.clients import opened
from streaminfer.bus.broker.connection import Connection
from streaminfer.bus.broker.errors import translate, translated
from streaminfer.bus.broker.fetching import batches
from streaminfer.bus.broker.fetching.ahead import Ahead, shares
from streaminfer.bus.places import Places
from streaminfer.bus.protocol import OutOfRange, Partition, Poll, Slice

WAIT_S: Final = 0.05
"""A fetch that brings only markers ends no wait of kafka-python: waits are short, and then we look."""
FETCH_RECORDS: Final = 1_000_000
"""Bytes bound a fetch, not records."""


def consumer_options(connection: Connection) -> dict[str, Any]:
    return {
        **connection.client_options(),
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "fetch_max_wait_ms": 100,
        "fetch_max_bytes": 16 << 20,
        "max_partition_fetch_bytes": 4 << 20,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }


class KafkaReader(Places):
    """Positions of partitions and the records from there on."""

    def __init__(self, connection: Connection, positions: Mapping[Partition, int], consumer: Any = None) -> None:
        super().__init__(positions)
        self._connection, self._names = connection, connection.names
        self._ahead: dict[Partition, Ahead] = {}
        self._needs = connection.needs("Read", "topic", *{partition.topic for partition in positions})
        if consumer is None:
            with translated("opening a reader", self._needs):
                consumer = opened(KafkaConsumer, **consumer_options(connection))
        self._consumer = consumer
        if positions:
            consumer.assign([self._names.place(partition) for partition in positions])
            self._rewind()

    def poll(self, timeout: float, max_records: int = 10_000) -> Poll:
        """See protocol.Reader."""
        if max_records < 1:
            raise ValueError(f"max_records is {max_records}, it must be at least 1")
        deadline = time.monotonic() + timeout
        while True:
            self._check_open()
            left = max(0.0, deadline - time.monotonic())
            found = self._look(0.0 if self._waiting() else min(left, WAIT_S), max_records)
            if found != Poll():
                return found
            if time.monotonic() >= deadline:
                return Poll()

    def seek(self, partition: Partition, position: int) -> None:
        super().seek(partition, position)
        self._ahead.pop(partition, None)
        self._place(partition)

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if not self._closed:
            super().close()
            self._ahead.clear()
            with translated("closing a reader"):
                self._consumer.close(autocommit=False, timeout_ms=1000)

    def _look(self, wait: float, max_records: int) -> Poll:
        if not self._waiting() or len(self._ahead) < len(self._positions):
            self._fetch(wait)
        return Poll(tuple(self._hand_out(max_records)))

    def _waiting(self) -> list[Partition]:
        """Partitions that have something to hand out now, in the order of service."""
        return [
            partition for partition in self._positions if partition in self._ahead and partition not in self._paused
        ]

    def _fetch(self, wait: float) -> None:
        """Gets more of the partitions that have nothing left to hand out."""
        wanted = [p for p in self._positions if p not in self._ahead and p not in self._paused]
        for partition in wanted:
            if self._positions[partition] < 0:
                raise self._out_of_range(partition)
        self._switch(set(wanted))
        records = self._ask(wait)
        if records is None:
            return
        for partition in wanted:
            place = self._names.place(partition)
            end = self._consumer.position(place, timeout_ms=0)
            if end is not None and end > self._positions[partition]:
                self._ahead[partition] = Ahead(records.get(place, ()), end)

    def _switch(self, wanted: set[Partition]) -> None:
        """kafka-python fetches these partitions and no others; what it has of others it keeps."""
        consumer, asleep = self._consumer, self._consumer.paused()
        for place in consumer.assignment():
            wake = self._names.partition(place) in wanted
            if wake == (place in asleep):
                (consumer.resume if wake else consumer.pause)(place)

    def _ask(self, wait: float) -> dict[Any, list[Any]] | None:
        """What a poll of kafka-python returns; None if it is not to be used."""
        batches.expanded.total = 0
        try:
            found: dict[Any, list[Any]] = self._consumer.poll(int(wait * 1000), FETCH_RECORDS)
        except OffsetOutOfRangeError as error:
            self._rewind()
            for place in error.args[0]:
                raise self._out_of_range(self._names.partition(place)) from error
            raise translate(error, "reading", self._needs) from error
        except batches.Enough:
            self._rewind()
            return None
        except (KafkaError, OSError) as error:
            self._rewind()
            raise translate(error, "reading", self._needs) from error
        return found

    def _hand_out(self, max_records: int) -> list[Slice]:
        waiting = [(partition, len(self._ahead[partition].records)) for partition in self._waiting()]
        slices = []
        for partition, share in shares(waiting, max_records):
            ahead = self._ahead[partition]
            slice_ = ahead.take(partition, self._positions[partition], share)
            self._served(partition, slice_.end)
            if not ahead.records:
                del self._ahead[partition]
            slices.append(slice_)
        return slices

    def _out_of_range(self, partition: Partition) -> OutOfRange:
        start = bounds.starts(self._connection, [partition])[partition]
        end = bounds.ends(self._connection, [partition])[partition]
        return OutOfRange(partition, self._positions[partition], start, end)

    def _rewind(self) -> None:
        """Nothing is lost that kafka-python may have dropped or never handed out."""
        # After an error kafka-python would ask what it had in hand for more, and get nothing, for ever.
        self._consumer._fetcher._next_partition_records = None
        for partition in self._positions:
            self._place(partition)

    def _place(self, partition: Partition) -> None:
        ahead = self._ahead.get(partition)
        position = self._positions[partition] if ahead is None else ahead.end
        self._consumer.seek(self._names.place(partition), max(0, position))

    def _check_open(self) -> None:
        self._connection.check_open()
        super()._check_open()
