"""What the loop drives: a service that takes one turn at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from prometheus_client import CollectorRegistry

from streaminfer.bus.protocol import Bus
from streaminfer.spec import Spec
from streaminfer.wire.avro import Schemas


class Fatal(Exception):
    """The service cannot go on; the text says why and what to do."""


class Service(Protocol):
    """A worker, a master: all its work happens in `step`, so any schedule of steps and crashes can be played."""

    @property
    def ready(self) -> bool:
        """Whether it is connected and knows where it stands."""

    def step(self, timeout: float) -> None:
        """One turn: poll for at most `timeout` seconds, then do and commit what is due."""

    def reset(self) -> None:
        """Forgets all that is not on the bus, after an error."""

    def close(self) -> None:
        """Commits what is whole and leaves its group."""


Builder = Callable[[Spec, Bus, CollectorRegistry, str | None, Schemas], Service]
"""Composes a service from a spec, a bus, a metrics registry, the name of its instance and the ids of its schemas."""
