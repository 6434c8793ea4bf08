"""Work that takes a moment is done by few threads of its own, so that short answers never wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from streaminfer.http.problems import Problem

T = TypeVar("T")

THREADS: Final = 2


class Workers:
    """Two threads and a short queue before them."""

    def __init__(self, most: int) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="http-work")
        self._most, self._waiting = most, 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result of some work; raises Problem if too much is waiting."""
        if self._waiting >= self._most:
            raise Problem(
                503,
                f"predictions and draws: at most {self._most} may wait at once",
                rule=f"at most {self._most} may wait at once",
                remedy="try again in a second",
                headers={"Retry-After": "1"},
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
