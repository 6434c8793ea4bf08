"""The memory that a monitor shows, as a part of its service: filled at every step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from streaminfer.bus.protocol import Bus
from streaminfer.measuring.judging.verdict import Verdict
from streaminfer.measuring.published import Published
from streaminfer.runtime.monitoring.memory.filling import Filler
from streaminfer.runtime.monitoring.memory.memory import Memory
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED, Schemas


class Remembering:
    """Follows all topics of a posterior into a memory."""

    def __init__(
        self,
        spec: Spec,
        bus: Bus,
        memory: Memory,
        schemas: Schemas = DECLARED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec, self._bus, self._memory, self._schemas, self._clock = spec, bus, memory, schemas, clock
        self._filler: Filler | None = None

    @property
    def ready(self) -> bool:
        """Whether all keys are read, if there are any."""
        keys = self._memory.keys
        return self._filler is not None and (keys is None or keys.complete)

    @property
    def snapshot(self) -> Snapshot | None:
        newest = self._memory.posterior
        return None if newest is None else newest.found.snapshot

    def judged(self, verdict: Verdict) -> None:
        self._memory.judged(verdict)

    def unpublished(self) -> Sequence[Published]:
        """The newest point of the history, now and then: a monitor that comes after this one has it from there."""
        found = None if self._filler is None else self._filler.unpublished()
        return () if found is None else (found,)

    def step(self, timeout: float) -> None:
        if self._filler is None:
            self._filler = Filler(self._spec, self._bus, self._memory, self._schemas, self._clock)
        self._filler.poll(timeout)
        self._memory.refresh()

    def reset(self) -> None:
        filler, self._filler = self._filler, None
        if filler is not None:
            filler.close()

    def close(self) -> None:
        self.reset()
