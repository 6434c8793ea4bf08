"""A concurrent subscriber: `snapshot --follow` in a process of its own, and what it must never see."""

from __future__ import annotations

import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.faults.programs import Programs, wait_for


class Watcher:
    """Follows a posterior until `check`."""

    def __init__(self, programs: Programs, spec: Path, url: str) -> None:
        self._program = programs.start("snapshot", spec, "--follow", "--json", "--bus", url)

    @property
    def pid(self) -> int:
        return self._program.pid

    def check(self, last_version: int) -> list[dict[str, Any]]:
        """Waits for a version, ends the subscriber, and returns what it saw: versions up, no frontier down.

        A frontier is (epoch, position): each pass over the data starts again.
        """
        wait_for(lambda: self.newest >= last_version, f"the subscriber sees version {last_version}")
        assert self._program.end(signal.SIGINT) == 0, self._program.err
        seen = self._program.documents
        for before, after in pairwise(seen):
            assert before["version"] < after["version"]
            assert before["n_events"] <= after["n_events"]
            for partition, position in before["frontier"].items():
                moved = (before["epoch"], position) <= (after["epoch"], after["frontier"][partition])
                assert moved, f"{partition} at version {after['version']}"
        return seen

    @property
    def newest(self) -> int:
        """The last version it saw."""
        documents = self._program.documents
        return documents[-1]["version"] if documents else 0
