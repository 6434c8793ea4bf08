"""One server for all tests that only ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http.site import Site, by_city, counted, site_of


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with site_of(counted()) as found:
        yield found


@pytest.fixture(scope="session")
def cities() -> Iterator[Site]:
    with site_of(by_city()) as found:
        yield found
