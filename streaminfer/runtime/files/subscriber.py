"""Follows a posterior and keeps its newest snapshot in a file."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from streaminfer.bus.protocol import Bus, OutOfRange, Partition, Unavailable, UnknownTopic
from streaminfer.models.keys import label_of
from streaminfer.runtime import names
from streaminfer.runtime.files.copy import Complete, Copy, portable
from streaminfer.runtime.files.snapshot_file import SnapshotFile
from streaminfer.runtime.registry import schemas
from streaminfer.runtime.running.patience import Teller
from streaminfer.runtime.service import NotYet
from streaminfer.runtime.telemetry import SubscriberMetrics
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.key_records import PREFIX
from streaminfer.wire.snapshots import TOPIC, OtherSpec

log = logging.getLogger(__name__)

REST: Final = 9
"""Times as long as a file took to be written until the next one is: a large posterior must not fill the disk's time."""
AGAIN_S: Final = 2.0
MOST_RECORDS: Final = 5000


class Freshness:
    """Whether what is in the file may be used: it was written, and is not older than `max_age_s`."""

    def __init__(self, file: SnapshotFile, wall: Callable[[], float], max_age_s: float | None) -> None:
        self._file, self._wall, self._max_age_s = file, wall, max_age_s

    def __call__(self) -> bool:
        newest = self._file.newest
        if newest is None:
            return False
        return self._max_age_s is None or self._wall() - newest.created_at / 1000 <= self._max_age_s


class Subscriber:
    """A service that only reads; all that it knows is on the bus and in the file."""

    def __init__(
        self, spec: Spec, bus: Bus, file: SnapshotFile, fresh: Freshness, metrics: SubscriberMetrics,
        clock: Callable[[], float], key: str | None = None,
    ) -> None:  # fmt: skip
        """Raises Unavailable while there is no posterior."""
        self._spec, self._bus, self._file, self._fresh, self._metrics = spec, bus, file, fresh, metrics
        self._clock, self._key, self._topic = clock, key, names.topic(spec, "posterior")
        self._teller, self._due = Teller(log), -1.0
        """When the next file may be written."""
        self._open()

    def _open(self) -> None:
        """Starts to read from the beginning of the log."""
        try:
            starts, ends = self._bus.starts(self._topic), self._bus.ends(self._topic)
        except UnknownTopic as error:
            raise Unavailable(f"no posterior {self._spec.name!r} yet: {error}") from error
        self._schemas: Schemas = schemas.look_up(self._spec, self._bus, [TOPIC])
        self._partitions = [Partition(self._topic, index) for index in range(self._spec.shards)]
        if not set(starts) >= {each.index for each in self._partitions}:
            raise Unavailable(f"{self._topic}: not all partitions are there yet")
        self._copy = Copy(self._keeps)
        self._complete = Complete(self._copy)
        self._ends = {each: ends[each.index] for each in self._partitions}
        """Where the log ended at first: before that there may be rows of which newer ones follow."""
        self._reader = self._bus.reader({each: starts[each.index] for each in self._partitions})
        self._news = False

    def _keeps(self, key: bytes) -> bool:
        return self._key is None or not key.startswith(PREFIX) or key.split(b"/", 2)[-1] == label_of(self._key)

    @property
    def ready(self) -> bool:
        return self._fresh()

    def step(self, timeout: float) -> None:
        """Takes in what has come, and writes the file if there is a newer snapshot. Raises NotYet of another spec's."""
        waits = max(0.0, self._due - self._clock()) if self._news else timeout
        try:
            polled = self._reader.poll(min(timeout, waits), MOST_RECORDS)
        except OutOfRange as error:
            log.warning("%s: reading again from the start", error)
            self.reset()
            return
        for part in polled.slices:
            self._news = self._complete.add(part.partition, part.records) or self._news
        caught_up = all(self._reader.position(each) >= self._ends[each] for each in self._partitions)
        if self._news and caught_up and self._clock() >= self._due:
            self._write()

    def _write(self) -> None:
        began = self._clock()
        before, self._news = self._file.newest, False
        kept = (record for each in self._partitions for record in self._copy.records(each))
        try:
            written = self._file.write(list(portable(kept, TOPIC, self._schemas)))
        except OtherSpec as error:
            raise NotYet(str(error)) from error
        except WireError as error:
            # A registry may have given ids since it was asked.
            self._teller.tell(f"{self._topic}: the newest snapshot is not written: {error}")
            self._schemas, self._news = schemas.look_up(self._spec, self._bus, [TOPIC]), True
            self._due = self._clock() + AGAIN_S
            return
        self._due = self._clock() + REST * (self._clock() - began)
        if written and self._file.newest is not None:
            self._tell(before, self._file.newest)

    def _tell(self, before: Snapshot | None, newest: Snapshot) -> None:
        self._metrics.tell(newest)
        level = logging.INFO if before is None else logging.DEBUG
        log.log(level, "%s: version %d of %d events", self._file.path, newest.version, newest.n_events)

    def reset(self) -> None:
        self._reader.close()
        self._open()

    def close(self) -> None:
        self._reader.close()
