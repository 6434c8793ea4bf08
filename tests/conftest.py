"""What tests of every folder may need: a real Kafka broker, once for all processes of a test run."""

from __future__ import annotations

import pytest

from tests.brokers.sharing import Run, shared_address

RUN = pytest.StashKey[Run]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # not in the processes that pytest-xdist starts
        config.stash[RUN] = Run()


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].end()


@pytest.fixture(scope="session")
def kafka_address() -> str:
    """Started by the first test that asks; names on it must be one's own."""
    return shared_address()
