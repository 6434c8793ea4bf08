"""Data that flows through `up` while a test harms the bus, and the exact posterior of all of it in the end."""

from __future__ import annotations

from typing import Any

from streaminfer.bus.protocol import BusError
from tests.faults.answers import Case
from tests.faults.feeding import Feeder
from tests.faults.programs import Programs, document, n_events, wait_for
from tests.faults.watching import Watcher

PATIENCE_S = 120.0
"""Brokers come back, sessions and transactions time out: nothing of it takes longer, on a busy machine."""


class Flow:
    """`up` with two workers, a feeder whose rows are let through bit by bit, and a subscriber."""

    def __init__(self, programs: Programs, url: str, case: Case, name: str, batch: int = 100) -> None:
        self._case, self.url, self._allowed = case, url, 0
        self.spec = case.write_spec(programs.folder / "spec.yaml", name, minibatch=50, snapshot_ms=50)
        data = case.write_csv(programs.folder / "data.csv")
        self.watcher = Watcher(programs, self.spec, url)
        self.feeder = Feeder(programs, self.spec, data, url, rows=batch, nap=0.02)
        self.up = programs.start("up", self.spec, "--workers", 2, "--bus", url)

    def absorbed(self) -> int:
        """Events in the posterior; -1 while the bus is away."""
        assert self.up.alive, self.up.err
        assert self.feeder.program.process.poll() in (None, 0), self.feeder.program.err
        try:
            return n_events(self.spec, self.url)
        except BusError:
            return -1

    def let(self, rows: int) -> None:
        """Lets some rows through; some always stay for the end."""
        self._allowed += rows
        assert self._allowed < len(self._case.rows), "all rows would be on the bus before the last harm"
        self.feeder.allow(self._allowed)

    def moves(self, rows: int) -> None:
        """Lets some rows through and waits until the first of them are in the posterior; more are on their way."""
        before = max(0, self.absorbed())
        self.let(rows)
        wait_for(lambda: self.absorbed() > before, "the posterior moves", PATIENCE_S, 0.1)

    def finish(self) -> dict[str, Any]:
        """Lets the rest through, waits until all is absorbed, ends `up`, and compares; the last snapshot."""
        self.feeder.finish()
        wait_for(lambda: self.absorbed() >= len(self._case.rows), "all rows are absorbed", PATIENCE_S, 0.1)
        assert self.up.end() == 0, self.up.err
        found = document(self.spec, self.url)
        self._case.check(found)
        self.watcher.check(found["version"])
        return found
