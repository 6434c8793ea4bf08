"""Brokers for tests: shared by the processes of a run, never left behind, and missed with a message."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers.node import free_port, live_brokers
from tests.faults.programs import interruptible, wait_for

LONG = pytest.mark.long
ROOT = Path(__file__).resolve().parents[2]

CONFTEST = "from tests.conftest import kafka_address, pytest_configure, pytest_unconfigure\n"
ASKING = """
import os, pathlib, time, pytest

@pytest.mark.parametrize("who", [pytest.param(x, marks=pytest.mark.xdist_group(x)) for x in ("one", "two")])
def test_asks(kafka_address, who):
    found = pathlib.Path(os.environ["FOUND"])
    (found / who).write_text(f"{os.getpid()} {kafka_address}")
    while not (found / "go").exists():
        time.sleep(0.05)
"""


def environment(**more: str) -> dict[str, str]:
    without = ("STREAMINFER_TEST_RUN", "STREAMINFER_TEST_KAFKA", "STREAMINFER_BUS", "PYTEST_XDIST_WORKER")
    kept = {name: value for name, value in os.environ.items() if name not in without}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def begin_run(folder: Path, *, broker: bool = True) -> subprocess.Popen[bytes]:
    """`pytest -n 2` on two tests in different processes, which both ask for the broker."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_asking.py").write_text(ASKING)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-q", "-c", os.devnull, str(folder)]
    path = os.environ["PATH"] if broker else str(folder)
    with (folder / "out").open("wb") as out, interruptible():
        return subprocess.Popen(
            [*command, "-p", "no:cacheprovider", f"--rootdir={folder}"],
            cwd=folder, env=environment(FOUND=str(folder), PATH=path), stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip


def shared(folder: Path, run: subprocess.Popen[bytes]) -> int:
    """Waits until both tests have the broker; its port."""

    def both() -> bool:
        assert run.poll() is None, (folder / "out").read_text()
        return all((folder / who).exists() and (folder / who).read_text() for who in ("one", "two"))

    wait_for(both, "both tests have a broker", 120)
    (first, one), (second, two) = ((folder / who).read_text().split() for who in ("one", "two"))
    assert one == two
    assert first != second, "they were to be different processes"
    return int(one.rpartition(":")[2])


@pytest.mark.parametrize("how", [pytest.param("end", marks=LONG), pytest.param("interrupt", marks=LONG), "kill"])
def test_one_broker_serves_a_run_and_ends_with_it(tmp_path: Path, how: str) -> None:
    run = begin_run(tmp_path)
    try:
        port = shared(tmp_path, run)
        assert live_brokers(port) == {1}
        if how == "end":
            (tmp_path / "go").touch()
            assert run.wait(120) == 0, (tmp_path / "out").read_text()
            assert live_brokers(port) == set(), "the run has ended before its broker"
        else:
            os.killpg(run.pid, signal.SIGINT if how == "interrupt" else signal.SIGKILL)
        wait_for(lambda: live_brokers(port) == set(), "the broker is gone", 60)
    finally:
        (tmp_path / "go").touch()
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def test_without_any_way_to_a_broker_tests_fail_and_name_the_ways(tmp_path: Path) -> None:
    run = begin_run(tmp_path, broker=False)
    assert run.wait(120) == 1
    text = (tmp_path / "out").read_text()
    assert "2 errors" in text
    assert "skipped" not in text
    for way in ("STREAMINFER_TEST_KAFKA", "docker info", "Java 17"):
        assert way in text


def test_a_broker_in_the_foreground_says_how_to_use_it_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "tests.brokers", "serve", "--port", str(port)]
    with (tmp_path / "out").open("wb") as out, interruptible():
        server = subprocess.Popen(
            command, cwd=ROOT, env=environment(TMPDIR=str(tmp_path)), stdout=out, stderr=out, start_new_session=True
        )
    try:
        wait_for(lambda: "Ctrl-C" in (tmp_path / "out").read_text(), "the broker is up", 90)
        assert f"export STREAMINFER_BUS=kafka://127.0.0.1:{port}\n" in (tmp_path / "out").read_text()
        assert live_brokers(port) == {1}
        os.killpg(server.pid, signal.SIGINT)
        assert server.wait(60) == 0, (tmp_path / "out").read_text()
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    assert live_brokers(port) == set()
    assert "Traceback" not in (tmp_path / "out").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "its data is still there"


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "tests.brokers", "serve", "--port", port]
        done = subprocess.run(
            command, cwd=ROOT, env=environment(), text=True, capture_output=True, timeout=120, check=False
        )
    assert done.returncode == 1
    assert (
        done.stderr
        == f"port {port} is taken, perhaps by a broker that runs already: use it, or `make kafka PORT=...`\n"
    )


@LONG
def test_a_broker_whose_owner_is_killed_is_gone(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "tests.brokers", "serve", "--port", str(port)]
    with (tmp_path / "out").open("wb") as out:
        server = subprocess.Popen(command, cwd=ROOT, env=environment(TMPDIR=str(tmp_path)), stdout=out, stderr=out)
    wait_for(lambda: live_brokers(port) == {1}, "the broker is up", 90)
    server.kill()
    server.wait()
    wait_for(lambda: live_brokers(port) == set(), "the broker is gone", 60)
