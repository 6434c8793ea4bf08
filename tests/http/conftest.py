"""One server for all tests that only ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.http.browsing import browser
from tests.http.site import Site, by_city, counted, site_of


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with site_of(counted()) as found:
        yield found


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests: a process can have only one."""
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def cities() -> Iterator[Site]:
    with site_of(by_city()) as found:
        yield found
