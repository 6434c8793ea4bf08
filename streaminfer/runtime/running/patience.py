"""Waiting for a bus that is away: pauses that grow, and few words about it."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from streaminfer.bus.protocol import BusError, Full, Unavailable
from streaminfer.runtime.logs import event

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_BACKOFF: Final = 0.05
MAX_BACKOFF: Final = 2.0
NAP: Final = 0.1
"""Seconds that a caller with other work may sleep at once."""
TELL_AGAIN_S: Final = 60.0
MOST_CAUSES: Final = 100


class Teller:
    """Logs each cause when it is new, and then at most once a minute. Causes that differ in numbers only are one."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = logger, clock
        self._told: dict[str, float] = {}

    def tell(self, text: str, name: str | None = None) -> None:
        """`name` is that of a change of state, see `logs.EVENTS`."""
        cause, now = re.sub(r"\d+", "#", text), self._clock()
        if now - self._told.get(cause, -TELL_AGAIN_S) < TELL_AGAIN_S:
            return
        if len(self._told) >= MOST_CAUSES:
            self._told.clear()
        self._told[cause] = now
        if name is None:
            self._log.warning("%s", text)
        else:
            event(self._log, name, text, logging.WARNING)


class Patience:
    """The pauses of one loop that tries again. They grow while it fails. They are short again once it has worked for
    longer than the last of them: a bus that takes every second try is not back."""

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._teller, self._clock = Teller(logger, clock), clock
        self._pause = 0.0
        self._failed_at = 0.0

    def failed(self, text: str, name: str = "waiting") -> float:
        """Says so if it is new, and for how many seconds to pause."""
        self._teller.tell(text, name)
        self._pause = min(max(FIRST_BACKOFF, 2 * self._pause), MAX_BACKOFF)
        self._failed_at = self._clock()
        return self._pause

    def worked(self) -> None:
        if self._pause and self._clock() - self._failed_at > 2 * self._pause:
            self._pause = 0.0


def naps(seconds: float) -> Iterator[None]:
    """A pause in pieces, for a loop that looks after something meanwhile."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(NAP, left))
        yield


def gave_up(error: BusError, seconds: float, remedy: str = "") -> Unavailable:
    """What a command says at its end that has waited long enough."""
    rest = f"; {remedy}" if remedy else ""
    return Unavailable(f"the bus cannot be used: {error}. Gave up after {seconds:.0f} s (--bus-timeout){rest}")


def patiently(
    attempt: Callable[[], T],
    stopping: Callable[[], bool],
    beat: Callable[[bool], None],
    at_most_s: float | None = None,
    for_room: bool = False,
) -> T | None:
    """The first result that comes without Unavailable; None if `stopping` comes first.

    `beat` hears of every failure: a process that waits is alive, and not ready.

    Nothing that serves gives up on a bus: a broker may start after its clients, and come back after an hour. A command
    that a person waits for does, after `at_most_s` seconds: then Unavailable says so. With `for_room` a full disk is
    waited for without end: the bus exists, and its address is right.
    """
    waits, began = Patience(log), time.monotonic()
    while not stopping():
        try:
            return attempt()
        except Unavailable as error:
            limit = None if for_room and isinstance(error, Full) else at_most_s
            pause = waits.failed(f"waiting for the bus{_limit(limit)}: {error}")
            beat(False)
            if limit is None:
                began = time.monotonic() if isinstance(error, Full) else began  # it has answered
            elif (waited := time.monotonic() - began) >= limit:
                raise gave_up(error, waited) from error
            else:
                pause = min(pause, limit - waited)
        time.sleep(pause)
    return None


def _limit(seconds: float | None) -> str:
    return "" if seconds is None else f" for at most {seconds:g} s"
