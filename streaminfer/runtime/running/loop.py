"""Drives a service until it is asked to stop, through whatever the bus does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from streaminfer.bus.protocol import Fenced, Replaced, Unavailable
from streaminfer.runtime.running.patience import Patience, Teller, naps
from streaminfer.runtime.service import NotYet, Service

log = logging.getLogger(__name__)

STEP: Final = 0.5
"""Seconds a step may wait for something to do; a stop is noticed within that time."""
NOT_YET_S: Final = 3.0
"""Seconds between tries of a service that can do nothing before something outside changes."""


def run(
    build: Callable[[], Service], stopping: Callable[[], bool], beat: Callable[[bool], None] = lambda _: None
) -> None:
    """Builds a service and steps it until `stopping`: an unavailable bus is waited for, a fenced service starts over.

    One that can do nothing yet leaves its group, so that others have its work, and is built again and again.

    `beat` hears after every step, good or bad, whether the service is ready.
    """
    waits, teller = Patience(log), Teller(log)
    service: Service | None = None
    try:
        while not stopping():
            try:
                if service is None:
                    service = build()
                service.step(STEP)
                waits.worked()
                beat(service.ready)
            except Replaced:
                raise  # a newer process does this one's work
            except NotYet as error:
                teller.tell(f"waiting, not ready: {error}", "waiting")
                left, service = service, None
                if left is not None:
                    left.close()
                beat(False)
                _rest(stopping, beat)
            except (Unavailable, Fenced) as error:
                name = "fenced" if isinstance(error, Fenced) else "waiting"
                pause = waits.failed(f"{type(error).__name__}: {error}", name)
                beat(False)
                time.sleep(pause)
                if service is not None:
                    service.reset()
    finally:
        if service is not None:
            service.close()


def _rest(stopping: Callable[[], bool], beat: Callable[[bool], None]) -> None:
    for _ in naps(NOT_YET_S):
        beat(False)
        if stopping():
            return
