"""How much any client may ask for, so that none can take the monitor from the others."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MOST_CLIENTS: Final = 4096
"""Clients whose rates are remembered; the one that asked longest ago is forgotten first."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one server."""

    head_bytes: int = 32 << 10
    """Of the request line and all headers."""
    body_bytes: int = 1 << 20
    request_seconds: float = 10.0
    """From the first byte of a request to its last."""
    write_seconds: float = 30.0
    """In which a client that takes nothing must take something."""
    connections: int = 512
    streams: int = 256
    stream_seconds: float = 3600.0
    """After which a stream ends. Its client comes back with the number of its last event, and misses nothing."""
    rate: float = 5000.0
    """Units a second for each client; most requests cost one."""
    burst: float = 10_000.0
    draws: int = 10_000
    rows: int = 1_000
    waiting: int = 32
    """Requests that compute something, at work or waiting for their turn."""


class Rates:
    """A bucket of units for each client, which fills again by itself. Used by one thread."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = limits.rate, limits.burst, clock
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Units left, and when that was."""

    def take(self, client: str, cost: float = 1.0) -> float:
        """0 if the client has the units, which are then gone; else the seconds until it has them."""
        now = self._clock()
        left, then = self._clients.get(client, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        wait = max(0.0, cost - left) / self._rate
        self._clients[client] = (left if wait else left - cost, now)
        self._clients.move_to_end(client)
        if len(self._clients) > MOST_CLIENTS:
            self._clients.popitem(last=False)
        return wait
