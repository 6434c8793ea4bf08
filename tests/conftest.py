"""What tests of every folder may need: a real Kafka broker, once for all processes of a test run.

BLAS has one thread in each of these processes, as in a worker: more would wait for each other on shared cores. Bytecode
is kept: hundreds of programs are started, and without it each of them compiles the package again.
"""

from __future__ import annotations

import os

import pytest

from streaminfer.__main__ import pin_threads

pin_threads()  # before numpy is there
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from tests.brokers.sharing import Run, shared_address  # noqa: E402

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
