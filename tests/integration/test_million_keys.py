"""A million keys: what a master holds of each, how long it takes to start again, what snapshots cost on the bus."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from streaminfer import connect, load_spec
from streaminfer.runtime import names
from tests.faults.buses import embedded
from tests.faults.programs import Program, Programs, wait_for

KEYS = 1_000_000
MAX_BYTES_PER_KEY = 400
MAX_RESTORE_S = 30.0


def write_spec(folder: Path, name: str) -> Path:
    path = folder / f"{name}.yaml"
    data = {"format": "rows", "partitions": 2}
    model = {"kind": "poisson", "field": "k"}
    inference = {"minibatch": 8, "snapshot_ms": 1000}
    path.write_text(json.dumps({"name": name, "data": data, "key": "id", "model": model, "inference": inference}))
    return path


def memory(program: Program) -> int:
    """Bytes of a process that are in memory now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{program.pid}/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def started(programs: Programs, spec: Path, url: str) -> tuple[Program, float]:
    """A master that has taken over, and the seconds that it took."""
    begin = time.monotonic()
    master = programs.start("run", "master", spec, "--bus", url, "--verbose")
    wait_for(lambda: "master of" in master.err or not master.alive, "it is the master", 300.0, interval=0.05)
    assert master.alive, master.err
    return master, time.monotonic() - begin


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_million_keys(programs: Programs, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = embedded(request, tmp_path)
    empty, full = write_spec(tmp_path, "empty"), write_spec(tmp_path, "full")
    spec = load_spec(full)
    with connect(url) as connection:
        connection.produce(spec, ({"id": i, "k": i % 5} for i in range(KEYS)))
    begin = time.monotonic()
    programs.run("up", full, "--until-idle", "--bus", url, timeout=1500)
    absorbed = time.monotonic() - begin
    bare, start = started(programs, empty, url)
    master, restore = started(programs, full, url)
    per_key = (memory(master) - memory(bare)) / KEYS
    with connect(url) as connection:
        topic = names.topic(spec, "posterior")
        written = sum(connection.bus.ends(topic).values())
        page = connection.keys(spec, after="77", limit=3)
        found = connection.snapshot(spec, key="777777")
    print(
        f"\n{KEYS:,} keys: absorbed in {absorbed:.0f} s, {per_key:.0f} bytes a key in the master, "
        f"restored in {restore - start:.1f} s, {written / KEYS:.2f} records a key on the posterior topic"
    )
    assert [each.key for each in page] == ["770", "7700", "77000"]
    assert found is not None
    assert (found.n_events, float(found.mean["rate"])) == (1, (1 + 777777 % 5) / 2)
    assert written <= 1.1 * KEYS, "keys that had not changed were written again"
    assert per_key <= MAX_BYTES_PER_KEY
    assert restore - start <= MAX_RESTORE_S
