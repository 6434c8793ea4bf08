"""What a monitor is made of, beside its writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from streaminfer.measuring.judging.verdict import Verdict
from streaminfer.measuring.published import Published
from streaminfer.runtime.service import Service
from streaminfer.variational.snapshot import Snapshot


class Memory(Service, Protocol):
    """Follows the posterior, and what else it wants to show, in every monitor."""

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest one of all shards; None before there is one."""

    def judged(self, verdict: Verdict) -> None:
        """A verdict has come."""

    def unpublished(self) -> Sequence[Published]:
        """What is to be published of it now, by the monitor that measures."""


class Measuring(Protocol):
    """Has checks made elsewhere. It never computes and never waits; only the monitor that measures has one."""

    def see(self, snapshot: Snapshot) -> None:
        """A snapshot has come."""

    def saw(self, published: Published) -> None:
        """A measurement was published, by this monitor or by another one."""

    def poll(self) -> Sequence[Published]:
        """What was measured since the last call."""

    def close(self) -> None:
        """Ends whatever measures."""
