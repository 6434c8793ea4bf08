"""The draws of all units as they come, read from the start of the topic: what is on it is two segments at most."""

from __future__ import annotations

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names
from streaminfer.runtime.following.assembled import Add, AssembledReader
from streaminfer.sampling.draws import Draws
from streaminfer.sampling.settings import Settings
from streaminfer.sampling.units import Unit
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas
from streaminfer.wire.events.formats import max_events
from streaminfer.wire.sampled.draws import Assembler


class DrawsReader(AssembledReader[Draws]):
    """Follows the partitions of some units, all if none are named."""

    def __init__(
        self, spec: Spec, settings: Settings, size: int, bus: Bus, schemas: Schemas, units: list[int] | None = None
    ) -> None:
        chosen = range(settings.n_units) if units is None else units

        def adder(unit: int) -> Add[Draws]:
            held = Assembler(spec.fingerprint, Unit.numbered(unit, settings), size, schemas, max_events(spec))

            def add(key: bytes | None, value: bytes | None) -> Draws | None:
                """What was removed had been read, or was old."""
                received = None if value is None else held.add(key, value)
                return None if received is None else received.draws

            return add

        super().__init__(bus, names.topic(spec, "draws"), {unit: adder(unit) for unit in chosen})
