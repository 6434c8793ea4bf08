"""The process that measures: of low priority, with a bus of its own, within a share of one core.

It is told what to measure on its standard input, answers on its standard output, and ends when either is closed.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import BinaryIO, Final

LEAST_PRIORITY: Final = 19
log = logging.getLogger(__name__)


def main() -> None:
    """Runs until the monitor that has started it closes the pipe, or is gone."""
    parent = os.getppid()
    os.nice(LEAST_PRIORITY)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s measuring: %(message)s")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    _serve(sys.stdin.buffer, answers, parent)


def _serve(requests: BinaryIO, answers: BinaryIO, parent: int) -> None:
    from streaminfer.bus.connect import open_bus
    from streaminfer.runtime.monitoring.measuring import frames, messages
    from streaminfer.runtime.monitoring.measuring.pacing import Pace
    from streaminfer.runtime.monitoring.measuring.working import Working

    first = frames.read(requests)
    if first is None:
        return
    begin = messages.begin_of(first)
    spec = begin.spec()
    pace = Pace(spec.monitor.share, begin.seconds, parent, lambda: os._exit(0))
    with open_bus(begin.bus, make=False) as bus:
        working = Working(spec, bus, begin.writer)
        while (frame := frames.read(requests)) is not None:
            for key, data in working.measured(messages.request_of(spec, frame)):
                answers.write(frames.packed(messages.measured_frame(key, data)))
                answers.flush()
                pace.look()


if __name__ == "__main__":
    main()
