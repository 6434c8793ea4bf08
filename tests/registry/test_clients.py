"""Clients of other authors read our topics on a real Kafka with nothing but the registry."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np
import pytest

from streaminfer import load_spec
from streaminfer.bus.connect import open_bus
from streaminfer.bus.protocol import Output
from streaminfer.runtime.registry import schemas
from streaminfer.variational import fold
from streaminfer.wire import snapshots
from tests.faults.programs import Programs
from tests.registry.conftest import URL, write_data, write_spec
from tests.registry_server import Registry, kcat

pytestmark = pytest.mark.xdist_group("registry")

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "read_snapshots.py"
ROWS = 500


class Posted(NamedTuple):
    """A finished `up` on Kafka, in a namespace of its own."""

    address: str
    namespace: str
    document: dict[str, Any]

    def topic(self, short: str) -> str:
        return f"{self.namespace}.clients.{short}"


@pytest.fixture(scope="module")
def posted(tmp_path_factory: pytest.TempPathFactory, kafka_address: str, registry: Registry) -> Iterator[Posted]:
    programs = Programs(tmp_path_factory.mktemp("clients"))
    programs.environment[URL] = registry.url
    namespace = f"team-{uuid.uuid4().hex[:8]}"
    url = f"kafka://{kafka_address}/{namespace}"
    spec, data = write_spec(programs.folder, "clients"), write_data(programs.folder, ROWS)
    try:
        programs.run("up", spec, "--data", data, "--workers", 2, "--until-idle", "--bus", url)
        (document,) = programs.run("snapshot", spec, "--json", "--bus", url).documents
        yield Posted(kafka_address, namespace, document)
    finally:
        programs.close()


def read_with_kcat(address: str, topic: str) -> list[bytes]:
    """The values of a topic's records."""
    command = [kcat(), "-C", "-q", "-e", "-b", address, "-t", topic, "-o", "beginning", "-f", "%S\n%s\n"]
    out = io.BytesIO(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    values = []
    while line := out.readline():
        values.append(out.read(int(line)))
        assert out.read(1) == b"\n"
    return values


@pytest.mark.parametrize("short", ["increments", "posterior"])
def test_ids_in_the_framing_are_the_registrys(posted: Posted, registry: Registry, short: str) -> None:
    (given,) = registry.ids(f"{posted.topic(short)}-value")
    values = read_with_kcat(posted.address, posted.topic(short))
    assert len(values) >= 2
    assert {value[:5] for value in values} == {b"\0" + given.to_bytes(4, "big")}


def test_a_snapshot_read_with_kcat_and_the_registrys_schema(posted: Posted, registry: Registry) -> None:
    last = read_with_kcat(posted.address, posted.topic("posterior"))[-1]
    schema = registry.ask("GET", f"/schemas/ids/{int.from_bytes(last[1:5], 'big')}")["schema"]
    body = io.BytesIO(last[5:])
    record: Any = fastavro.schemaless_reader(body, json.loads(schema), None)
    assert body.read() == b""
    manifest = record["manifest"]
    natural = np.frombuffer(record["payload"], "<f8")[manifest["n_statistics"] :]
    assert manifest["n_events"] == posted.document["n_events"] == ROWS
    assert record["version"] == posted.document["version"]
    assert natural.tolist() == posted.document["natural"]


def run_example(address: str, registry: Registry, topic: str) -> dict[str, Any]:
    """The newest snapshot, by the example of the documentation as it stands there."""
    command = [sys.executable, str(EXAMPLE), address, registry.url, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


def test_snapshots_read_with_confluents_client(posted: Posted, registry: Registry) -> None:
    last, document = run_example(posted.address, registry, posted.topic("posterior")), posted.document
    assert last["kind"] == document["model"]
    for name in ("name", "family", "exactness", "n_events", "version", "natural"):
        assert last[name] == document[name]
    assert list(last["frontier"].values()) == list(document["frontier"].values())


def test_a_snapshot_in_chunks_read_with_confluents_client(
    kafka_address: str, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL, registry.url)
    spec, namespace = load_spec(write_spec(tmp_path, "chunks")), f"team-{uuid.uuid4().hex[:8]}"
    about = snapshots.About("chunks", "gaussian", "normal_inverse_wishart", "svb", "exact")
    natural = np.arange(50.0)
    with open_bus(f"kafka://{kafka_address}/{namespace}") as bus:
        ids = schemas.prepare(spec, bus)
        for version in (1, 2):
            given = replace(fold.start(spec.model, spec.fingerprint), version=version)
            records = snapshots.encode(given, natural * version, about, snapshots.ENVELOPE + 64, ids)
            bus.publish([Output("chunks.posterior", data, key, 0) for key, data in records])
    assert len(records) > 5
    last = run_example(kafka_address, registry, f"{namespace}.chunks.posterior")
    assert (last["version"], last["natural"]) == (2, (natural * 2).tolist())
