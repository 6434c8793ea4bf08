"""Whether the posterior on the bus is the spec's own. No service joins a group before that, or is ready after it fails.

So a service with a changed spec takes nothing from those that are at work, and waits until somebody decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from streaminfer.bus.protocol import Bus, OutOfRange, Partition, Record, UnknownTopic
from streaminfer.runtime import names
from streaminfer.runtime.following import manifests
from streaminfer.runtime.intact import is_removal
from streaminfer.runtime.service import NotYet, Service
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas
from streaminfer.wire.errors import WireError
from streaminfer.wire.snapshots import MANIFEST, OtherSpec

LOOK_S: Final = 2.0
"""Seconds between looks at the bus."""
BACK: Final = 16
"""Positions that are looked at first for a manifest; GROWTH times as many at each further try."""
GROWTH: Final = 64


def compare(spec: Spec, bus: Bus, schemas: Schemas) -> bool:
    """Whether every shard has a manifest, the newest of which is of this spec; raises NotYet if one is of another."""
    try:
        ends = bus.ends(names.topic(spec, "posterior"))
    except UnknownTopic:
        return False
    found = [_compare(spec, bus, Partition(names.topic(spec, "posterior"), i), schemas) for i in sorted(ends)]
    return all(found)


def _compare(spec: Spec, bus: Bus, partition: Partition, schemas: Schemas) -> bool:
    record = _newest_manifest(bus, partition)
    if record is None:
        return False
    try:
        manifests.assembled(spec, manifests.assembler(spec, schemas), record)
    except OtherSpec as error:
        raise NotYet(str(error)) from error
    except WireError:
        return False  # a damaged one: who restores the posterior says so
    return True


def _newest_manifest(bus: Bus, partition: Partition) -> Record | None:
    """Read from the end backwards: a posterior of many keys has a manifest among its last records."""
    start, end = (each(partition.topic)[partition.index] for each in (bus.starts, bus.ends))
    begin, back = end, BACK
    while begin > start:
        begin, back = max(start, end - back), back * GROWTH
        try:
            found = _last(bus, partition, begin, end)
        except OutOfRange:
            return None  # retention was faster
        if found is not None:
            return found
    return None


def _last(bus: Bus, partition: Partition, begin: int, end: int) -> Record | None:
    """The last manifest at these positions."""
    newest = None
    with bus.reader({partition: begin}) as reader:
        while reader.position(partition) < end:
            for record in (each for part in reader.poll(1.0).slices for each in part.records):
                if record.key == MANIFEST and not is_removal(record):
                    newest = record
    return newest


class Compared:
    """A service that is ready only while the bus answers and has no posterior of another spec, also as a standby."""

    def __init__(
        self, service: Service, spec: Spec, bus: Bus, schemas: Schemas, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service, self._spec, self._bus, self._schemas, self._clock = service, spec, bus, schemas, clock
        self._posterior = names.topic(spec, "posterior")
        self._ends: dict[int, int] = {}
        """Of the posterior when it was last compared."""
        self._known = False
        self._looked_at = -LOOK_S

    @property
    def ready(self) -> bool:
        return self._service.ready

    def step(self, timeout: float) -> None:
        """Looks first: a standby has nothing else that asks the bus."""
        now = self._clock()
        if now - self._looked_at >= LOOK_S:
            ends = self._bus.ends(self._posterior)
            if not self._known and ends != self._ends:
                self._known = compare(self._spec, self._bus, self._schemas)
                self._ends = ends
            self._looked_at = now
        self._service.step(timeout)

    def reset(self) -> None:
        self._service.reset()

    def close(self) -> None:
        self._service.close()
