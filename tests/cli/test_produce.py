"""`produce`: what it tells, and that a killed one repeats nothing. `dead-letters` on what it brought."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streaminfer.bus.connect import open_bus
from streaminfer.wire.events.rows import unpack
from tests.cli.conftest import Workplace
from tests.contracts.bus_harness import read_all
from tests.faults.programs import Programs, wait_for

pytestmark = pytest.mark.xdist_group("processes")

ROWS = 150_000
SLOWLY = ("--rate", 20_000)
"""So that it is in the middle of its rows when it is killed, however late that is."""


def values(url: str, partition: int | None = None) -> list[bytes | None]:
    """What is on the data topic, or on one partition of it."""
    with open_bus(url) as bus:
        records = read_all(bus, "coin.events") if "coin.events" in bus.topics() else []
    return [record.value for record in records if partition in (None, record.partition.index)]


def on_the_bus(url: str) -> int:
    return len(values(url))


def test_it_tells_what_it_did_and_appends_when_run_again(workplace: Workplace, bus_url: str) -> None:
    run = workplace.programs.run
    first = run("produce", workplace.spec, workplace.data, "--json", "--bus", bus_url)
    assert first.documents == [
        {"file": str(workplace.data), "rows": 100, "resumed": 0, "dead_letters": 0, "reasons": []}
    ]
    (line,) = first.err.splitlines()
    assert "100%" in line
    assert "100 events" in line
    plain = run("produce", workplace.spec, workplace.data, "--bus", bus_url)
    assert plain.out == ""
    assert on_the_bus(bus_url) == 200


@pytest.mark.parametrize("ending", ["ndjson", "ndjson.gz"])
def test_killed_in_the_middle_and_started_again_it_repeats_nothing(
    programs: Programs, bus_url: str, workplace: Workplace, tmp_path: Path, ending: str
) -> None:
    file = tmp_path / f"large.{ending}"
    lines = [f'{{"y": {i % 2}, "i": {i}}}' for i in range(ROWS)]
    with gzip.open(file, "wt", 1) if ending.endswith("gz") else file.open("w") as out:
        out.write("\n".join(lines) + "\n")
    killed = programs.start("produce", workplace.spec, file, "--json", *SLOWLY, "--bus", bus_url)
    wait_for(lambda: on_the_bus(bus_url) > 0, "the first rows are on the bus", interval=0.005)
    killed.end(signal.SIGKILL)
    before = on_the_bus(bus_url)
    assert 0 < before < ROWS
    assert killed.out == ""
    again = programs.run("produce", workplace.spec, file, "--json", "--bus", bus_url)
    assert again.documents == [{"file": str(file), "rows": ROWS, "resumed": before, "dead_letters": 0, "reasons": []}]
    assert f"({before:,} of them by an earlier run)" in again.err
    for partition in range(2):
        assert values(bus_url, partition) == [line.encode() for line in lines[partition::2]]


def test_a_file_that_changed_since_it_was_killed_is_refused(
    programs: Programs, bus_url: str, workplace: Workplace, tmp_path: Path
) -> None:
    file = tmp_path / "large.ndjson"
    file.write_text('{"y": 0}\n' * ROWS)
    killed = programs.start("produce", workplace.spec, file, *SLOWLY, "--bus", bus_url)
    wait_for(lambda: on_the_bus(bus_url) > 0, "the first rows are on the bus", interval=0.005)
    killed.end(signal.SIGKILL)
    before = on_the_bus(bus_url)
    assert before < ROWS
    file.write_text('{"y": 1}\n' * ROWS)
    message = programs.run("produce", workplace.spec, file, "--bus", bus_url, code=1).err
    assert f"its first {before} rows are not those that an interrupted run put on the bus" in message
    assert on_the_bus(bus_url) == before


def test_a_parquet_file_as_rows_killed_and_started_again(programs: Programs, bus_url: str, tmp_path: Path) -> None:
    spec, file = tmp_path / "table.yaml", tmp_path / "large.parquet"
    spec.write_text("{name: coin, data: {format: rows, partitions: 2}, model: {kind: bernoulli, field: y}}\n")
    pq.write_table(pa.table({"y": [i % 2 for i in range(ROWS)]}), file)
    killed = programs.start("produce", spec, file, "--json", *SLOWLY, "--bus", bus_url)
    wait_for(lambda: on_the_bus(bus_url) > 0, "the first rows are on the bus", interval=0.005)
    killed.end(signal.SIGKILL)
    before = sum(len(unpack(value).values) for value in values(bus_url))
    assert 0 < before < ROWS
    again = programs.run("produce", spec, file, "--json", "--bus", bus_url)
    assert again.documents == [{"file": str(file), "rows": ROWS, "resumed": before, "dead_letters": 0, "reasons": []}]
    found = np.concatenate([unpack(value).values[:, 0] for value in values(bus_url)])
    assert (len(found), found.sum()) == (ROWS, ROWS // 2)


def test_standard_input_at_a_rate(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    command = [sys.executable, "-P", "-m", "streaminfer", "produce", str(workplace.spec), "-", "--bus", bus_url]
    data = b"".join(b'{"y": %d}\n' % (i % 2) for i in range(50))

    def run(*more: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*command, *more], input=data, env=programs.environment, capture_output=True, check=False)

    begin = time.monotonic()
    done = run("--format", "ndjson", "--rate", "50", "--json")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begin >= 0.9
    assert json.loads(done.stdout) == {"file": "-", "rows": 50, "resumed": 0, "dead_letters": 0, "reasons": []}
    assert b"standard input cannot be read again: if this is interrupted, it cannot be resumed" in done.stderr
    assert sorted(values(bus_url)) == sorted(data.splitlines())
    nameless = run()
    assert nameless.returncode == 2
    assert nameless.stderr.endswith(
        b"-: standard input has no file name that tells its format: add --format csv or --format ndjson\n"
    )
    named = programs.run("produce", workplace.spec, workplace.data, "--format", "csv", "--bus", bus_url, code=2)
    assert "--format is for standard input (-); the end of its name tells the format of a file" in named.err


def test_dead_letters_are_listed_with_their_reasons(programs: Programs, bus_url: str, workplace: Workplace) -> None:
    programs.run("topics", workplace.spec, "--apply", "--bus", bus_url)
    assert programs.run("dead-letters", workplace.spec, "--bus", bus_url).out == "no dead letters\n"
    file = workplace.folder / "bad.ndjson"
    file.write_bytes(b'{"y": 1}\n{"y": 2}\n\xff\n')
    programs.run("up", workplace.spec, "--data", file, "--until-idle", "--bus", bus_url)
    table = programs.run("dead-letters", workplace.spec, "--bus", bus_url).out.splitlines()
    assert [line.split()[:2] for line in table] == [
        ["source", "offset"], ["coin.events-0", "1"], ["coin.events-1", "0"]
    ]  # fmt: skip
    assert "y: must be 0 or 1" in table[2]
    listed = programs.run("dead-letters", workplace.spec, "--json", "--bus", bus_url).documents
    assert [letter["value"] for letter in listed] == [None, '{"y": 2}']
    assert [letter["value_base64"] for letter in listed] == ["/w==", "eyJ5IjogMn0="]
    assert json.loads(listed[1]["value"]) == {"y": 2}
