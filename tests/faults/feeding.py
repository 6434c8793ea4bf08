"""`produce` at a walking pace: `python -m tests.faults.feeding SPEC FILE URL ROWS SECONDS [GATE]`.

The loader of `streaminfer produce` itself, with batches of ROWS rows and a nap of SECONDS after each, so that data
flows while a test does its harm. GATE is a file with the number of rows that may be loaded by now.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.runtime import names
from streaminfer.runtime.loading import produce
from tests.faults.programs import Program, Programs


class Feeder:
    """A feeder process seen from the test; it stops before the rows that `allow` has not allowed."""

    def __init__(self, programs: Programs, spec: Path, data: Path, url: str, rows: int, nap: float) -> None:
        self._gate = programs.folder / f"{data.name}.gate"
        self.allow(0)
        arguments = (spec, data, url, rows, nap, self._gate)
        self.program: Program = programs.start(*arguments, module="tests.faults.feeding")

    def allow(self, rows: int) -> None:
        """A reader sees the old number or the new one, never half of it."""
        written = self._gate.with_suffix(".new")
        written.write_text(str(rows))
        written.rename(self._gate)

    def finish(self) -> None:
        """Lets all rows through and waits for the end."""
        self.allow(sys.maxsize)
        assert self.program.process.wait(120) == 0, self.program.err


def feed(spec_path: str, file: str, url: str, rows: int, nap: float, gate: Path) -> None:
    vars(produce)["BATCH_RECORDS"] = rows
    spec = load_spec(spec_path)
    with open_bus(url) as bus:
        names.create_topics(spec, bus)
        for progress in produce.Loader(spec, bus, Path(file)).run():
            time.sleep(nap)
            while progress.rows >= int(gate.read_text()):
                time.sleep(0.02)


if __name__ == "__main__":
    feed(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]), Path(sys.argv[6]))
