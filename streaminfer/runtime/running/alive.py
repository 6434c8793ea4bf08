"""That a step goes on: services say it between two pieces of their work, and whoever counts signs of life listens.

So a step that has much to do is not taken for one that is stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_listeners: list[Callable[[], None]] = []
"""Of this process, whose services take their turns in one thread."""


def tell() -> None:
    """A piece of work is done, and the step is not at its end."""
    for listener in _listeners:
        listener()


@contextmanager
def listening(listener: Callable[[], None]) -> Iterator[None]:
    """Hears of every piece of work meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
