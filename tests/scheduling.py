"""Which tests share a process of pytest-xdist, and which of them begin first.

Tests of one `xdist_group` share what is slow to start. `--dist loadgroup` puts the group at the end of a test's id,
which pytest 9.2 takes no notice of: every process then starts everything again, and nothing tells of it
(https://github.com/pytest-dev/pytest-xdist/issues/1386). So the first process of a run writes down who belongs
together, and the scheduler reads it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

FOLDER = Path(__file__).resolve().parent
FIRST = ("faults", "trials", "cli", "golden", "integration", "registry", "brokers", "bus", "docs", "simulation")
"""Folders with tests that wait or take long, longest first: at the end there are many short ones to share out."""


def sort(items: list[pytest.Item]) -> None:
    """Slow folders first, else the order that there is."""
    places = {FOLDER / name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: min((places[each] for each in item.path.parents if each in places), default=len(FIRST)))


def group(item: pytest.Item) -> str | None:
    """The group that a test belongs to; that of the test itself counts before that of its module."""
    mark = item.get_closest_marker("xdist_group")
    return None if mark is None else str(mark.args[0])


def write_groups(items: list[pytest.Item], path: Path) -> None:
    """The groups of all tests that have one, by id."""
    path.write_text(json.dumps({item.nodeid: name for item in items if (name := group(item)) is not None}))


def scheduler(config: pytest.Config, log: Any, path: Path) -> LoadScopeScheduling:
    """A scheduler that reads the groups when all processes have collected their tests."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):
        groups: dict[str, str] | None = None

        def _split_scope(self, nodeid: str) -> str:
            if self.groups is None:
                self.groups = json.loads(path.read_text())
            return self.groups.get(nodeid, nodeid)

    config.option.loadscopereorder = False  # which would begin with the group of the most tests
    return Groups(config, log)
