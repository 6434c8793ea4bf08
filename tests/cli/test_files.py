"""`subscribe`, `backup` and `restore` as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest

from streaminfer import connect, load_spec
from tests.cli.conftest import Workplace
from tests.faults.buses import params
from tests.faults.programs import Programs, document, free_port, wait_for
from tests.runtime.files.golden_buses import lose

pytestmark = pytest.mark.xdist_group("processes")


@pytest.fixture(params=params())
def every_bus_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param(request, tmp_path))


def test_a_backup_and_a_file_on_every_bus(workplace: Workplace, every_bus_url: str, tmp_path: Path) -> None:
    """Both are read from the bus in other ways than anything else is."""
    up = ["up", workplace.spec, "--data", workplace.data, "--until-idle", "--bus", every_bus_url]
    workplace.programs.run(*up)
    done = workplace.call("backup", workplace.spec, tmp_path / "coin.backup", "--bus", every_bus_url)
    assert done.out.startswith(f"coin: wrote {tmp_path / 'coin.backup'}: version ")
    assert done.out.endswith(", 100 events\n")
    refused = workplace.call("restore", workplace.spec, tmp_path / "coin.backup", "--bus", every_bus_url, code=1)
    assert "is not older than the backup" in refused.err
    workplace.programs.run("subscribe", workplace.spec, "--to", tmp_path, "--once", "--bus", every_bus_url)
    with connect(f"file:{tmp_path / 'coin.snapshot'}") as file, connect(every_bus_url) as bus:
        spec = load_spec(workplace.spec)
        found, expected = file.snapshot(spec), bus.snapshot(spec)
        assert found is not None
        assert expected is not None
        assert found.to_json() == expected.to_json()
        assert found.predict([{}])["probability"] == pytest.approx([71 / 102])
    assert json.loads((tmp_path / "coin.json").read_text())["n_events"] == 100


def test_a_restore_under_another_bus_goes_on(workplace: Workplace, prepared_url: str, tmp_path: Path) -> None:
    backup, other = tmp_path / "coin.backup", f"embedded:{tmp_path / 'other'}"
    workplace.call("backup", workplace.spec, backup, "--bus", prepared_url)
    refused = workplace.call("restore", workplace.spec, backup, "--bus", other, code=1)
    assert "--new-log" in refused.err
    workplace.call("restore", workplace.spec, backup, "--new-log", "--bus", other)
    workplace.programs.run("up", workplace.spec, "--data", workplace.data, "--until-idle", "--bus", other)
    (document,) = workplace.call("snapshot", workplace.spec, "--json", "--bus", other).documents
    assert (document["n_events"], document["natural"]) == (200, [141, 61])


def test_draws_are_kept_too(programs: Programs, tmp_path: Path) -> None:
    spec, data, bus = tmp_path / "line.yaml", tmp_path / "line.csv", tmp_path / "bus"
    spec.write_text("{name: line, model: {kind: gaussian, fields: [y]}, inference: {method: gibbs, draws: 40}}\n")
    data.write_text("y\n" + "".join(f"{number}\n" for number in range(40)))
    url = f"embedded:{bus}"
    programs.run("up", spec, "--data", data, "--until-idle", "--bus", url)
    programs.run("backup", spec, tmp_path / "line.backup", "--bus", url)
    programs.run("subscribe", spec, "--to", tmp_path, "--once", "--bus", url)
    before = document(spec, url)
    assert document(spec, f"file:{tmp_path / 'line.snapshot'}") == before
    lose(bus / "bus.sqlite3", "line.posterior")
    programs.run("restore", spec, tmp_path / "line.backup", "--bus", url)
    after = document(spec, url)
    assert (after["parameters"], after["n_events"]) == (before["parameters"], 40)
    programs.run("up", spec, "--data", data, "--until-idle", "--bus", url)
    assert document(spec, url)["n_events"] == 80


def test_subscribe_follows_until_it_is_told_to_end(
    programs: Programs, bus_url: str, workplace: Workplace, tmp_path: Path
) -> None:
    port = free_port()
    to = tmp_path / "to"
    to.mkdir()
    subscriber = programs.start(
        "subscribe", workplace.spec, "--to", to, "--http", f"127.0.0.1:{port}", "--bus", bus_url
    )
    wait_for(lambda: status(port, "healthz") == 200, "the subscriber")
    assert status(port, "readyz") == 503
    programs.start("up", workplace.spec, "--bus", bus_url)
    programs.run("produce", workplace.spec, workplace.data, "--bus", bus_url)
    wait_for(lambda: n_events(to) == 100, "the file")
    assert status(port, "readyz") == 200
    began = time.monotonic()
    assert subscriber.end(signal.SIGTERM) == 0
    assert time.monotonic() - began < 5
    assert sorted(os.listdir(to)) == ["coin.json", "coin.snapshot"]


def n_events(folder: Path) -> int:
    path = folder / "coin.json"
    return json.loads(path.read_text())["n_events"] if path.exists() else 0


def status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_mistakes_are_told_with_field_rule_and_value(workplace: Workplace, prepared_url: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    bus = ["--bus", prepared_url]
    called = workplace.call("subscribe", workplace.spec, "--to", missing, *bus, code=2)
    assert f"--to: must be a folder that exists (got {str(missing)!r})" in called.err
    called = workplace.call("subscribe", workplace.spec, "--to", tmp_path, "--key", "k", *bus, code=2)
    assert "--key: " in called.err
    called = workplace.call("backup", workplace.spec, missing / "file", *bus, code=2)
    assert "FILE: must be a file that can be written" in called.err
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    called = workplace.call("backup", workplace.spec, pipe, *bus, code=2)
    assert f"FILE: must be a file that can be written (got {pipe}: is not a file)" in called.err
    assert pipe.is_fifo()
    called = workplace.call("restore", workplace.spec, missing, *bus, code=1)
    assert "No such file" in called.err
    called = workplace.call("restore", workplace.spec, workplace.data, *bus, code=1)
    assert "not a file of records, or damaged" in called.err
