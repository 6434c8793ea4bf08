"""Waiting for a bus that is away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from streaminfer.bus.protocol import Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_BACKOFF: Final = 0.05
MAX_BACKOFF: Final = 2.0


def patiently(attempt: Callable[[], T], stopping: Callable[[], bool], beat: Callable[[bool], None]) -> T | None:
    """The first result that comes without Unavailable; None where `stopping` comes first.

    `beat` hears of every failure: who waits lives, and is not ready.

    Nothing that serves gives up on a bus: a broker may start after its clients, and come back after an hour.
    """
    backoff = FIRST_BACKOFF
    while not stopping():
        try:
            return attempt()
        except Unavailable as error:
            log.warning("waiting for the bus: %s", error)
            beat(False)
        time.sleep(backoff)
        backoff = min(2 * backoff, MAX_BACKOFF)
    return None
