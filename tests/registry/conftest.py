"""Fixtures of the registry's tests: a real one for all tests of a process, and programs that are told of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streaminfer.bus.embedded import EmbeddedBus
from tests.faults.programs import Programs, programs
from tests.registry_server import Registry, local_registry

__all__ = ["programs"]

URL = "STREAMINFER_SCHEMA_REGISTRY_URL"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests with the real registry in one process: each that starts takes ten seconds of a core."""
    for item in items:
        if "registry" in getattr(item, "fixturenames", ()) and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("registry"), append=False)


@pytest.fixture(scope="session")
def registry() -> Iterator[Registry]:
    """Started by the first test that asks; names in it must be one's own."""
    with local_registry() as made:
        yield made


@pytest.fixture
def told(programs: Programs, registry: Registry) -> Programs:
    """Programs that know of the registry."""
    programs.environment[URL] = registry.url
    return programs


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[EmbeddedBus]:
    with EmbeddedBus(tmp_path / "bus") as made:
        yield made


def write_spec(folder: Path, name: str) -> Path:
    path = folder / f"{name}.yaml"
    model = "{kind: gaussian, fields: [x, y]}"
    path.write_text(f"{{name: {name}, data: {{partitions: 2}}, model: {model}, inference: {{minibatch: 50}}}}\n")
    return path


def write_data(folder: Path, rows: int) -> Path:
    path = folder / "data.csv"
    path.write_text("x,y\n" + "".join(f"{i * 0.5},{i % 7}\n" for i in range(rows)))
    return path
