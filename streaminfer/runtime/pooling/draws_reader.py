"""The draws of all units as they come, read from the start of the topic: what is on it is two segments at most."""

from __future__ import annotations

import logging
from typing import NamedTuple

from streaminfer.bus.protocol import Bus, OutOfRange, Partition, Record
from streaminfer.runtime import names
from streaminfer.runtime.intact import is_removal, value_of
from streaminfer.runtime.patience import Teller
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.units import Unit
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas
from streaminfer.wire.draws import Assembler
from streaminfer.wire.errors import WireError
from streaminfer.wire.events.formats import max_events

log = logging.getLogger(__name__)


class Arrived(NamedTuple):
    """Draws of a unit, and the offset of their last record."""

    unit: int
    draws: Draws
    offset: int


class DrawsReader:
    """Follows the partitions of some units, all if none are named."""

    def __init__(
        self, spec: Spec, settings: Settings, size: int, bus: Bus, schemas: Schemas, units: list[int] | None = None
    ) -> None:
        self._bus, self._topic, self._teller = bus, names.topic(spec, "draws"), Teller(log)
        starts = bus.starts(self._topic)
        self._units = list(range(settings.n_units)) if units is None else units
        self._reader = bus.reader({Partition(self._topic, unit): starts[unit] for unit in self._units})
        self._assemblers = {
            unit: Assembler(spec.fingerprint, Unit.numbered(unit, settings), size, schemas, max_events(spec))
            for unit in self._units
        }
        self.bad: list[tuple[Record, str]] = []
        """What the last `poll` could not read, and why."""

    def poll(self, timeout: float) -> list[Arrived]:
        """Draws that have come since the last call."""
        self.bad = []
        try:
            polled = self._reader.poll(timeout)
        except OutOfRange as error:
            self._reader.seek(error.partition, error.start)
            return []
        found = []
        for part in polled.slices:
            for record in part.records:
                if is_removal(record):
                    continue
                try:
                    received = self._assemblers[part.partition.index].add(record.key, value_of(record))
                except WireError as error:
                    self._teller.tell(f"{record.partition} offset {record.offset} is ignored: {error}")
                    self.bad.append((record, f"{error.reason}: {error}"))
                    continue
                if received is not None:
                    found.append(Arrived(part.partition.index, received.draws, record.offset))
        return found

    def at_end(self) -> bool:
        """Whether all that is on the topic now was read."""
        ends = self._bus.ends(self._topic)
        return all(self._reader.position(Partition(self._topic, unit)) >= ends[unit] for unit in self._units)

    def positions(self) -> dict[int, int]:
        """By unit, how far it was read."""
        return {unit: self._reader.position(Partition(self._topic, unit)) for unit in self._units}

    def close(self) -> None:
        self._reader.close()
