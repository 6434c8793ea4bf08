"""SIGTERM ends every command within seconds, also as process 1, and also while a bus does not answer."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaminfer.runtime.running import ending
from tests.faults.programs import Program, Programs, wait_for

SPEC = "{name: coin, data: {partitions: 2}, model: {kind: bernoulli, field: y}}"
SAMPLED = "{name: line, model: {kind: gaussian, fields: [y]}, inference: {method: gibbs, draws: 10}}"
ENDS = {"run": {0}, "up": {0, ending.CODE}}
"""Exit codes, if not that of a command which was not done. A silent bus may keep `up` to its hard end."""
LATE_S = 5.5
"""The five seconds that there are, and a loaded machine's time to notice."""


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server


def caught(program: Program) -> bool:
    """Whether the process has a handler of SIGTERM: process 1 hears of no other signals."""
    status = Path(f"/proc/{program.pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


def end_all(running: dict[tuple[str, ...], Program]) -> None:
    for command, program in running.items():
        assert program.alive, f"{command}: {program.err}"
        program.send(signal.SIGTERM)
    asked_at = time.monotonic()
    for command, program in running.items():
        code = program.process.wait(30)
        assert time.monotonic() - asked_at < LATE_S, command
        assert code in ENDS.get(command[0], {ending.CODE}), f"{command}: {program.err}"
        assert "Traceback" not in program.err, command


def start(programs: Programs, url: str) -> dict[tuple[str, ...], Program]:
    """Every command that may run for long, at work."""
    coin, line, data = (programs.folder / name for name in ("coin.yaml", "line.yaml", "coin.csv"))
    coin.write_text(SPEC)
    line.write_text(SAMPLED)
    data.write_text("y\n" + "1\n" * 1000)
    commands: list[tuple[object, ...]] = [
        ("produce", coin, data, "--rate", "1"), ("snapshot", coin, "--follow"), ("draws", line, "--follow"),
        ("up", coin), *(("run", service, coin) for service in ("master", "svb-worker", "monitor")),
    ]  # fmt: skip
    return {tuple(map(str, each)): programs.start(*each, "--bus", url) for each in commands}


def test_at_work(programs: Programs) -> None:
    url = f"embedded:{programs.folder / 'bus'}"
    running = start(programs, url)
    for program in running.values():
        wait_for(lambda program=program: caught(program), "it listens to SIGTERM")
    following = next(program for command, program in running.items() if command[0] == "snapshot")
    wait_for(lambda: "version" in following.out, "there are snapshots to follow")
    end_all(running)


def test_while_the_bus_is_silent(programs: Programs, silent: socket.socket) -> None:
    running = start(programs, f"kafka://127.0.0.1:{silent.getsockname()[1]}")
    for program in running.values():
        wait_for(lambda program=program: caught(program), "it listens to SIGTERM")
        silent.accept()  # as many questions as programs, at least
    end_all(running)


def test_a_main_thread_that_never_ends(programs: Programs) -> None:
    code = (
        "import signal, time\nfrom streaminfer.runtime.running import ending\nending.LIMIT_S = 0.3\nending.install()\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\nprint('ready', flush=True)\nwhile True: time.sleep(60)\n"
    )
    (programs.folder / "hanging.py").write_text(code)
    programs.environment["PYTHONPATH"] += f":{programs.folder}"
    program = programs.start(module="hanging")
    wait_for(lambda: "ready" in program.out, "it hangs")
    assert program.end(signal.SIGTERM) == ending.CODE
