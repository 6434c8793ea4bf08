"""Fixtures of the trials, which run one after the other: each of them keeps the machine busy for minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.buses import bus_url
from tests.faults.programs import programs

__all__ = ["bus_url", "programs"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.xdist_group("trials"))
