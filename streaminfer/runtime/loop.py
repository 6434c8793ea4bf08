"""Drives a service until it is asked to stop, through whatever the bus does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from streaminfer.bus.protocol import Fenced, Replaced, Unavailable
from streaminfer.runtime.patience import Patience
from streaminfer.runtime.service import Service

log = logging.getLogger(__name__)

STEP: Final = 0.5
"""Seconds a step may wait for something to do; a stop is noticed within that time."""


def run(
    build: Callable[[], Service], stopping: Callable[[], bool], beat: Callable[[bool], None] = lambda _: None
) -> None:
    """Builds a service and steps it until `stopping`: an unavailable bus is waited for, a fenced service starts over.

    `beat` hears after every step, good or bad, whether the service is ready.
    """
    waits = Patience(log)
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
