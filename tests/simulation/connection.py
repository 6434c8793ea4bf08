"""One process's way to the simulated broker: before and after every operation anything may happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streaminfer.bus.protocol import BusError
from tests.simulation.broker import Broker

T = TypeVar("T")

Wait = Callable[[float], None]
"""Lets a number of seconds pass."""


class Faults:
    """What may happen around an operation. The base class lets nothing happen."""

    def before(self, operation: str) -> None:
        """May raise, or let others run."""

    def after(self, operation: str) -> None:
        """May raise though the operation took effect."""

    def lies(self, operation: str) -> bool:
        """Whether a write shall report success and do nothing."""
        return False

    def repeats(self, operation: str) -> bool:
        """Whether a publish shall write everything twice."""
        return False


class Connection:
    """Operations take effect here. Polls wait with `wait`; without it they never do: time is the simulation's."""

    def __init__(self, broker: Broker, faults: Faults, wait: Wait | None) -> None:
        self.broker, self.faults, self.wait = broker, faults, wait
        self.closed = False

    def act(self, operation: str, effect: Callable[[], T]) -> T:
        """Every operation passes here."""
        self.check_open()
        self.faults.before(operation)
        result = effect()
        self.faults.after(operation)
        return result

    def check_open(self) -> None:
        if self.closed:
            raise BusError("this bus is closed")
