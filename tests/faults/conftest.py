"""Fixtures of the tests that run real processes, and which of them run one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.buses import bus_url
from tests.faults.programs import programs

__all__ = ["bus_url", "programs"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On the embedded bus these tests keep a core busy: one at a time. On Kafka they wait more than they work."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and "embedded" in item.name:
            item.add_marker(pytest.mark.xdist_group("kills"))
