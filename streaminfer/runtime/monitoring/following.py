"""The memory of a monitor that shows nothing to anybody: the newest snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from streaminfer.bus.protocol import Bus
from streaminfer.measuring.judging.verdict import Verdict
from streaminfer.measuring.published import Published
from streaminfer.runtime.following.shards import Shards
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot
from streaminfer.wire.avro import DECLARED, Schemas


class Following:
    """Follows the posterior alone."""

    def __init__(self, spec: Spec, bus: Bus, schemas: Schemas = DECLARED) -> None:
        self._spec, self._bus, self._schemas = spec, bus, schemas
        self._shards: Shards | None = None

    @property
    def ready(self) -> bool:
        return self._shards is not None

    @property
    def snapshot(self) -> Snapshot | None:
        return None if self._shards is None else self._shards.snapshot

    def judged(self, verdict: Verdict) -> None: ...

    def unpublished(self) -> Sequence[Published]:
        return ()

    def step(self, timeout: float) -> None:
        if self._shards is None:
            self._shards = Shards(self._spec, self._bus, self._schemas)
        self._shards.poll(timeout)

    def reset(self) -> None:
        shards, self._shards = self._shards, None
        if shards is not None:
            shards.close()

    def close(self) -> None:
        self.reset()
