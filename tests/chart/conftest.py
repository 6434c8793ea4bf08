"""Tests of the chart run in one process, which keeps what helm has rendered. The first one may have to build helm."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("chart"))
            item.add_marker(pytest.mark.timeout(1800))
