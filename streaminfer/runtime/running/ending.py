"""SIGTERM ends this process within seconds, also as process 1, for which signals have no default action.

A command is left by SystemExit, so that what it has opened is closed; a service ends in its own way (see StopSignal).
Whatever still hangs after a while, in a library or with a bus that does not answer, is ended hard. That may happen at
any time anyway: nothing depends on a good end.
"""

from __future__ import annotations

import os
import signal
import time
from threading import Thread
from types import FrameType
from typing import Final, NoReturn

CODE: Final = 128 + signal.SIGTERM
"""The exit code of a process that was asked to end before it was done."""
LIMIT_S: Final = 4.5
"""Seconds from the signal to the hard end."""
SERVICE_LIMIT_S: Final = 3.5
"""Those of a service: `up`, which waits for its services, ends after them."""


class Asked:
    """Whether SIGTERM has come to a command: then what fails while things are closed is not to be told."""

    def __init__(self) -> None:
        self.yes = False


asked: Final = Asked()


def install(service: bool = False) -> None:
    """To be called early, and in the main thread: a signal that comes before it is lost to process 1.

    A service is done whenever it is told to end, so its exit code is 0.
    """
    signal.signal(signal.SIGTERM, _leave)
    watch(0 if service else CODE, SERVICE_LIMIT_S if service else LIMIT_S)


def watch(code: int, limit: float) -> None:
    """Ends this process with this exit code `limit` seconds after SIGTERM, whatever its main thread does.

    Python's own handlers run between two steps of the main thread; this hears of a signal while that one computes.
    """
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    Thread(target=_end_after, args=(heard, code, limit), name="ending", daemon=True).start()


def _leave(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 (the handler's signature)
    signal.signal(number, signal.SIG_IGN)  # once is enough: what is being closed must not be interrupted again
    asked.yes = True
    raise SystemExit(CODE)


def _end_after(heard: int, code: int, limit: float) -> None:
    while signal.SIGTERM not in os.read(heard, 64):
        pass
    time.sleep(limit)
    os._exit(code)
