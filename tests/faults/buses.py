"""The buses that every test about delivery runs on: one row each, and the fixture that gives them in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest


@contextmanager
def embedded(folder: Path) -> Iterator[str]:
    """An embedded bus in a directory of its own."""
    yield f"embedded:{folder / 'bus'}"


BUSES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {"embedded": embedded}
"""Each gives the URL of a bus that nobody else uses; processes of this machine can open it."""


@pytest.fixture(params=list(BUSES.values()), ids=list(BUSES))
def bus_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with request.param(tmp_path) as url:
        yield url


@pytest.fixture(scope="module", params=list(BUSES.values()), ids=list(BUSES))
def shared_bus_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One bus for all tests of a module, which must use spec names of their own."""
    with request.param(tmp_path_factory.mktemp("shared")) as url:
        yield url
