"""All that the monitor knows. One thread writes it; any other may read it at any time.

Everything that is read is immutable and replaced as a whole, so that no reader waits for a lock or for the bus.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, get_args

from streaminfer.measuring.judging.verdict import State, Verdict
from streaminfer.measuring.judging.verdict import verdict as first_verdict
from streaminfer.runtime.monitoring.memory.dead_letters import DeadLetters
from streaminfer.runtime.monitoring.memory.history import History, coordinates_of, point_of
from streaminfer.runtime.monitoring.memory.keys import KeyIndex
from streaminfer.runtime.monitoring.memory.measurements import Measurements
from streaminfer.runtime.monitoring.memory.services import Life, Services
from streaminfer.runtime.monitoring.memory.shown import Shown
from streaminfer.spec import Spec

Part = Literal["posterior", "verdict", "metrics", "services", "dead-letters"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)


class Reading(NamedTuple):
    """How far the posterior topic was read."""

    read: int = 0
    total: int = 0


class Memory:
    """What is known of one posterior. `instance` is the name of the monitor that knows it."""

    def __init__(self, spec: Spec, instance: str, clock: Callable[[], float] = time.time) -> None:
        self.spec, self.instance, self._clock = spec, instance, clock
        self.posterior: Shown | None = None
        self.reading = Reading()
        self.keys: KeyIndex | None = None
        """Of a keyed posterior, once it is followed."""
        self.chains = ""
        """What the chains of a sampled posterior do."""
        self.history, self.measurements = History(), Measurements()
        self.services, self.dead_letters = Services(), DeadLetters()
        self._states: Mapping[tuple[str, str], Life] = {}
        self.verdict = first_verdict(State(), (), spec.monitor)
        self.stamps: Mapping[Part, int] = dict.fromkeys(PARTS, 0)
        """A number for each part, which grows whenever it changes."""

    def now(self) -> int:
        """Milliseconds since 1970."""
        return round(self._clock() * 1000)

    def changed(self, *parts: Part) -> None:
        """Says that parts are not what they were."""
        self.stamps = {part: stamp + (part in parts) for part, stamp in self.stamps.items()}

    def refresh(self) -> None:
        """Looks whether time alone has changed something, such as a process that is silent."""
        states = self.services.states(self.now())
        if states != self._states:
            self._states = states
            self.changed("services")

    def judged(self, verdict: Verdict) -> None:
        """The newest verdict."""
        if verdict != self.verdict:
            self.verdict = verdict
            self.changed("verdict")

    def show(self, posterior: Shown) -> None:
        """A newer posterior."""
        found = posterior.found
        if not self.history.coordinates and self.keys is None and found.topics is None:
            self.history.coordinates = coordinates_of(found.moments, found.spec.model.labels)
        self.posterior = posterior
        self.changed("posterior")

    def remember(self, posterior: Shown) -> None:
        """Adds it to the history, once the past is there. A prior is no part of it: its width would hide all others."""
        if posterior.found.n_events:
            self.history.add(point_of(posterior.found))
