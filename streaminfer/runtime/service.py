"""What the loop drives: a service that takes one turn at a time."""

from __future__ import annotations

from typing import Protocol


class Fatal(Exception):
    """The service cannot go on; the text says why and what to do."""


class NotYet(Exception):
    """The service cannot work until something outside changes; the text says what. Until then it waits, not ready."""


class Service(Protocol):
    """A worker, a master: all its work happens in `step`, so any schedule of steps and crashes can be played."""

    @property
    def ready(self) -> bool:
        """Whether it is connected and knows its positions."""

    def step(self, timeout: float) -> None:
        """One turn: poll for at most `timeout` seconds, then do and commit what is due."""

    def reset(self) -> None:
        """Forgets all that is not on the bus, after an error."""

    def close(self) -> None:
        """Commits what is whole and leaves its group."""
