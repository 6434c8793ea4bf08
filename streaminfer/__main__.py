"""The `streaminfer` command."""

from __future__ import annotations

import os
import signal
import sys

from streaminfer.runtime.running import ending
from streaminfer.runtime.running.threads import pin_threads


def main() -> None:
    serves = sys.argv[1:2] == ["run"]
    ending.install(serves)
    pin_threads()
    if serves:
        end_when_told()
    from streaminfer.cli import main as command

    try:
        code = command(sys.argv[1:])
    except BaseException:
        if not ending.asked.yes:
            raise
    sys.exit(ending.CODE if ending.asked.yes else code)


def end_when_told() -> None:
    """A service that is told to end while it still loads its modules ends well, as there is nothing to be closed.

    Loading takes seconds on a busy machine. Afterwards `StopSignal` has handlers of its own.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))


if __name__ == "__main__":
    main()
