"""When the data has come to rest: then the ends of passes are fixed, and a pooled prior is fitted for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streaminfer.bus.protocol import Bus
from streaminfer.runtime import names
from streaminfer.spec import Spec
from streaminfer.variational.snapshot import Snapshot

INTERVAL: Final = 0.2
"""Seconds between looks."""
QUIET: Final = 10.0
"""Seconds without a new event after which there is no need to wait for more."""


class Rest:
    """Looks at the data topic; `clock` is its master's."""

    def __init__(self, spec: Spec, bus: Bus, clock: Callable[[], float]) -> None:
        self._spec, self._bus, self._clock = spec, bus, clock
        self._topic = names.data_topic(spec)
        self._ends: dict[int, int] = {}
        self._since = self._looked_at = clock()

    def look(self, snapshot: Snapshot) -> dict[int, int] | None:
        """The ends, once all is in the posterior that a worker would cut by itself and no more is to come.

        No more is to come when `up --until-idle` waits for just these ends, or after QUIET seconds.
        """
        now = self._clock()
        if now - self._looked_at < INTERVAL:
            return None
        self._looked_at = now
        ends = self._bus.ends(self._topic)
        if ends != self._ends:
            self._ends, self._since = ends, now
        frontier = snapshot.frontier
        if not all(self._reached(frontier.positions.get(index), end) for index, end in ends.items()):
            return None
        there = snapshot.n_events > 0 or any(end > frontier.starts.get(index, end) for index, end in ends.items())
        rested = there and now - self._since >= QUIET
        return ends if rested or ends == self._marks() else None

    def _reached(self, frontier: int | None, end: int) -> bool:
        """Whether a frontier has come to an end, or to a last minibatch that is not full while nothing lingers."""
        if frontier is None:
            return False
        minibatch = self._spec.inference.minibatch
        full = (frontier // minibatch + 1) * minibatch
        return frontier >= end or (self._spec.inference.linger_ms == 0 and end < full)

    def _marks(self) -> dict[int, int]:
        kept = self._bus.committed(names.until_idle_group(self._spec))
        return {partition.index: at.offset for partition, at in kept.items() if partition.topic == self._topic}
