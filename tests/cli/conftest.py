"""Fixtures of the command line's tests: a folder with a spec and data, and one bus that has a posterior."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streaminfer.cli import main
from tests.faults.buses import params
from tests.faults.programs import Programs, programs

__all__ = ["programs"]

SPEC = "{name: coin, data: {partitions: 2}, model: {kind: bernoulli, field: y}, inference: {minibatch: 10}}\n"
ONES, ZEROS = 70, 30


class Called(NamedTuple):
    """What a command wrote."""

    out: str
    err: str

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Workplace:
    """Programs in a folder with a spec and a data file; `url` is a bus for commands that write nothing there."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.folder, self.url = Programs(folder), folder, f"embedded:{folder / 'bus'}"
        self.spec, self.data = folder / "coin.yaml", folder / "coin.csv"
        self.spec.write_text(SPEC)
        self.data.write_text("y\n" + "1\n" * ONES + "0\n" * ZEROS)

    def call(self, *arguments: object, code: int = 0) -> Called:
        """A command in this process, where nothing depends on its being another; it must end with this code."""
        out, err = StringIO(), StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.folder)
            for name in ("STREAMINFER_BUS", "STREAMINFER_HTTP_TOKEN"):
                patch.delenv(name, raising=False)
            try:
                found: object = main([str(argument) for argument in arguments])
            except SystemExit as end:  # argparse's way
                found = end.code or 0
        assert found == code, f"{arguments[0]} ended with {found}, not {code}:\n{err.getvalue()}"
        return Called(out.getvalue(), err.getvalue())


@pytest.fixture(params=params(later=("kafka",)))
def bus_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Commands are the same on every bus; what they do there is tried in tests/faults and tests/integration."""
    return str(request.param(request, tmp_path))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    made = Workplace(tmp_path_factory.mktemp("work"))
    try:
        yield made
    finally:
        made.programs.close()


@pytest.fixture(scope="module")
def shared_bus_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One bus for all tests of a module, which must use spec names of their own."""
    return f"embedded:{tmp_path_factory.mktemp('shared') / 'bus'}"


@pytest.fixture(scope="module")
def prepared_url(workplace: Workplace, shared_bus_url: str) -> str:
    """A bus that has all the data in the posterior."""
    up = ["up", workplace.spec, "--data", workplace.data, "--until-idle", "--bus", shared_bus_url]
    workplace.programs.run(*up)
    return shared_bus_url
