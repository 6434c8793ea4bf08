"""A share of one core: a bucket of CPU seconds that fills with time, and a process that sleeps when it is empty.

A timer of CPU time asks again and again, in the middle of any computation, so pure code knows nothing of it. One call
into a library may take longer than the bucket has; what it took is a debt that is slept off afterwards.
"""

from __future__ import annotations

import atexit
import os
import resource
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

BURST_S: Final = 3.0
"""CPU seconds that may be used at once after a time without work."""
SLICE_S: Final = 0.02
"""CPU seconds between two looks."""
NAP_S: Final = 0.25
"""The longest sleep without a look for the parent."""


class Bucket:
    """CPU seconds that may be used now; below 0 it is a debt."""

    def __init__(self, share: float, now: float, seconds: float = BURST_S) -> None:
        self.share, self.seconds = share, min(seconds, BURST_S)
        self._now, self._used = now, 0.0

    def look(self, now: float, used: float) -> float:
        """What is there at a time, if so many CPU seconds were `used` in all."""
        gained = self.share * max(0.0, now - self._now)
        self.seconds = min(BURST_S, self.seconds + gained - max(0.0, used - self._used))
        self._now, self._used = now, used
        return self.seconds


def used_here() -> float:
    """CPU seconds of this process since it began."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Pace:
    """Keeps this process within a share of one core, and ends it when its parent is gone."""

    def __init__(self, share: float, seconds: float, parent: int, end: Callable[[], object]) -> None:
        """`seconds` are in the bucket when the process begins, which has already used some."""
        self._bucket, self._parent, self._end = Bucket(share, time.monotonic(), seconds), parent, end
        signal.signal(signal.SIGPROF, self._on_signal)
        signal.setitimer(signal.ITIMER_PROF, SLICE_S, SLICE_S)
        atexit.register(signal.setitimer, signal.ITIMER_PROF, 0)  # an interpreter that ends has no handlers

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (the handler's signature)
        self.look()

    def look(self) -> None:
        """Sleeps if the bucket is empty."""
        while (left := self._bucket.look(time.monotonic(), used_here())) < 0:
            if os.getppid() != self._parent:
                self._end()
            time.sleep(min(NAP_S, -left / self._bucket.share))
        if os.getppid() != self._parent:
            self._end()
