"""A way around kafka-python 3.0.12: a join that takes longer than one poll may never be heard of again.

Its coordinator starts a new join when it finds the last one done, and throws away its outcome. It also forgets a join
that was due to new metadata as soon as the assignment is worked out. Members that poll with short waits then join for
ever, or own nothing while the group thinks otherwise. Here a join under way stays needed until it was awaited.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Awaited:
    """A future that is to be awaited, done or not."""

    is_done = False

    def __init__(self, future: Any) -> None:
        self._future = future

    def add_callback(self, callback: Callable[[Any], None]) -> None:
        self._future.add_callback(callback)

    def add_errback(self, errback: Callable[[Exception], None]) -> None:
        self._future.add_errback(errback)


def keep_join(consumer: Any) -> None:
    """To be called after every poll of a member's consumer."""
    coordinator = consumer._coordinator
    task = coordinator._join_task
    if task is None:
        return
    coordinator.request_rejoin()
    if not isinstance(task, _Awaited):
        coordinator._join_task = _Awaited(task)
