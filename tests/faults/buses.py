"""The buses that every test about delivery runs on: one row each, and the fixture that gives them in turn."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest


def embedded(request: pytest.FixtureRequest, folder: Path) -> str:
    """An embedded bus in a directory of its own."""
    return f"embedded:{folder / 'bus'}"


def kafka(request: pytest.FixtureRequest, folder: Path) -> str:
    """A namespace of its own on the broker that all tests share."""
    return f"kafka://{request.getfixturevalue('kafka_address')}/test-{uuid.uuid4().hex[:12]}"


BUSES: dict[str, Callable[[pytest.FixtureRequest, Path], str]] = {"embedded": embedded, "kafka": kafka}
"""Each gives the URL of a bus that no other test uses; processes of this machine can open it."""


def params(later: tuple[str, ...] = ()) -> list[Any]:
    """Every bus; those of `later` only in the long run."""
    long = {name: (pytest.mark.long,) if name in later else () for name in BUSES}
    return [pytest.param(bus, id=name, marks=long[name]) for name, bus in BUSES.items()]


def params_with(rows: Mapping[str, Sequence[tuple[Any, ...]]], label: Callable[[Any], str] = str) -> list[Any]:
    """Every bus with each of its rows: the values of `bus_url` (indirect) and of further parameters."""
    return [
        pytest.param(*bus.values, *row, marks=bus.marks, id="-".join([str(bus.id), *map(label, row)]))
        for bus in params()
        for row in rows[str(bus.id)]
    ]


@pytest.fixture(params=params())
def bus_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param(request, tmp_path))


kafka_later = pytest.mark.parametrize("bus_url", params(later=("kafka",)), indirect=True)
"""On a test: every bus, Kafka only in the long run. Another test of the same kind is on Kafka in every run."""


def kind(url: str) -> str:
    """Which row of BUSES a URL comes from: a broker takes longer for the same, so tests have sizes for each."""
    return url.partition(":")[0]
