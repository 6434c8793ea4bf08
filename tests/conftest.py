"""What tests of every folder may need: a real Kafka broker, once for all processes of a test run, and their order.

BLAS has one thread in each of these processes, as in a worker: more would wait for each other on shared cores. Bytecode
is kept: hundreds of programs are started, and without it each of them compiles the package again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streaminfer.runtime.running.threads import pin_threads

pin_threads()  # before numpy is there
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from tests import scheduling  # noqa: E402
from tests.brokers.sharing import Run, run_folder, shared_address  # noqa: E402

if TYPE_CHECKING:
    from tests.bus.secured import Secured

RUN = pytest.StashKey[Run]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # not in the processes that pytest-xdist starts
        config.stash[RUN] = Run()


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        config.stash[RUN].end()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        scheduling.sort(items)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist tells what was collected
def pytest_collection_finish(session: pytest.Session) -> None:
    if getattr(session.config, "workerinput", {}).get("workerid") == "gw0":
        scheduling.write_groups(session.items, _groups())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    return scheduling.scheduler(config, log, _groups()) if config.getvalue("dist") == "loadgroup" else None


def _groups() -> Path:
    return run_folder() / "groups.json"


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with TLS, log-ins and rights, for tests of the group `security`."""
    from tests.bus.secured import secured_broker

    with secured_broker(tmp_path_factory.mktemp("secured")) as started:
        yield started


@pytest.fixture(scope="session")
def kafka_address() -> str:
    """Started by the first test that asks; names on it must be one's own."""
    return shared_address()
