"""How much measuring may read, and how long it may take."""

from __future__ import annotations

from typing import Final

MOST_EVENTS: Final = 2_000_000
"""Events that one measurement reads; a longer log is measured from an older snapshot on."""
CPU_S: Final = 120.0
"""CPU seconds of a check, unless its row says otherwise."""
START_S: Final = 60.0
"""Seconds that a child may take beyond its CPU seconds: to start on a busy machine, and to wait for the bus."""
AGAIN_S: Final = 30.0
"""Seconds after which a check of days that found nothing out is made again, of a newer version."""
IDLE_S: Final = 30.0
"""A child without work for so long is ended."""
FIRST_S: Final = 3.0
"""Nothing is measured so soon after the first snapshot: short jobs end before."""
EVERY_S: Final = 10.0
"""Seconds between two versions that are measured, at least."""
STEADY_S: Final = 30.0
"""The same after an hour. So what is read at a start goes back by a day, to the newest audit."""
HOUR_S: Final = 3600.0
