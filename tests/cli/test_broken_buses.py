"""Commands on a bus that cannot work: one line, and an end if a person waits; services wait, in few words."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import Workplace
from tests.faults.programs import Programs, free_port, wait_for

pytestmark = pytest.mark.xdist_group("processes")

LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # Python leaves half a file if there is no room for it
os.execv(sys.executable, [sys.executable, "-P", "-m", "streaminfer", *sys.argv[1:]])
"""
"""No file may grow beyond that, as on a disk that is full for this process; its children inherit it."""


def limited(programs: Programs, *arguments: object, script: str = LIMITED) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", script, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=programs.folder,
        env=programs.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def warnings(text: str) -> list[str]:
    return [line for line in text.splitlines() if " WARNING " in line]


def begun(programs: Programs, command: list[object]) -> subprocess.Popen[bytes]:
    """A program in the background that has written its first warning."""
    with (programs.folder / "told").open("wb") as told:
        up = subprocess.Popen(
            list(map(str, command)), cwd=programs.folder, env=programs.environment, stdout=subprocess.DEVNULL,
            stderr=told,
        )  # fmt: skip
    wait_for(lambda: up.poll() is not None or bool(warnings(told_by(programs))), "it says what it waits for")
    return up


def told_by(programs: Programs) -> str:
    """What that program has written so far."""
    return (programs.folder / "told").read_text()


def test_produce_gives_up_on_a_disk_that_is_full(programs: Programs, workplace: Workplace) -> None:
    large = programs.folder / "large.csv"
    large.write_text("y,pad\n" + f"1,{'x' * 100}\n" * 20_000)
    bus = f"embedded:{programs.folder / 'bus'}"
    done = limited(programs, "produce", workplace.spec, large, "--bus", bus, "--bus-timeout", 2)
    assert done.returncode == 1, done.stderr
    assert len(warnings(done.stderr)) == 1, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("streaminfer: the bus cannot be used: ")
    assert "disk I/O error: its disk is broken, or full" in last
    assert "(--bus-timeout)" in last
    assert programs.run("produce", workplace.spec, large, "--json", "--bus", bus).documents[0]["rows"] == 20_000


def test_up_waits_on_a_disk_that_is_full_in_few_words(programs: Programs, workplace: Workplace) -> None:
    large = programs.folder / "large.csv"
    large.write_text("y,pad\n" + f"1,{'x' * 100}\n" * 20_000)
    bus = f"embedded:{programs.folder / 'bus'}"
    command = [sys.executable, "-P", "-c", LIMITED, "up", workplace.spec, "--data", large, "--until-idle", "--bus", bus]
    up = begun(programs, command)
    time.sleep(5)
    assert up.poll() is None
    up.terminate()
    assert up.wait(60) == 1
    told = told_by(programs)
    assert "Traceback" not in told
    assert "ended with exit code" not in told, "services wait too"
    assert 1 <= len(warnings(told)) <= 6, told


NARROW = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # Python leaves half a file if there is no room for it
os.execv(sys.executable, [sys.executable, "-P", "-m", "streaminfer", *sys.argv[1:]])
"""
"""As on a disk that is full from the beginning, until the limit of the process is lifted."""


def test_up_that_starts_on_a_full_disk_waits_until_there_is_room(programs: Programs, workplace: Workplace) -> None:
    bus = f"embedded:{programs.folder / 'bus'}"
    options = ["--bus-timeout", 1, "--bus", bus]
    assert limited(programs, "topics", workplace.spec, "--apply", *options, script=NARROW).returncode == 1
    command = [sys.executable, "-P", "-c", NARROW, "up", workplace.spec, "--data", workplace.data, "--until-idle"]
    up = begun(programs, [*command, *options])
    time.sleep(3)
    assert up.poll() is None, "it waits for longer than --bus-timeout"
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(up.pid, resource.RLIMIT_FSIZE, unlimited)
    code, told = up.wait(120), told_by(programs)
    assert code == 0, told
    (waiting,) = warnings(told)
    assert "waiting for the bus: " in waiting
    assert "disk" in waiting


def test_a_broker_that_does_not_exist(programs: Programs, workplace: Workplace) -> None:
    url = f"kafka://127.0.0.1:{free_port()}"
    serving = programs.start("run", "master", workplace.spec, "--bus", url)
    for command in (["topics"], ["up", "--until-idle"]):
        began = time.monotonic()
        program = programs.run(command[0], workplace.spec, *command[1:], "--bus", url, "--bus-timeout", 1, code=1)
        assert time.monotonic() - began < 60
        waiting, last = program.err.splitlines()
        assert "waiting for the bus for at most 1 s: " in waiting
        assert last.startswith("streaminfer: the bus cannot be used: ")
        assert "Unable to bootstrap" in last
        assert "Gave up after" in last
    wait_for(lambda: serving.err.endswith("\n"), "it says what it waits for")
    assert serving.alive
    assert len(serving.err.splitlines()) == 1, serving.err
    assert serving.end() == 0
