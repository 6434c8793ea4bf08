"""Contenders and services as processes of their own, with one BLAS thread each and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.contenders.task import Outcome, Task
from streaminfer.runtime.running.threads import THREADS

ROOT: Final = Path(__file__).resolve().parents[1]
PATIENCE_S: Final = 600.0
STOP_S: Final = 10.0


class Failed(Exception):
    """A process of the benchmark ended badly."""


def environment() -> dict[str, str]:
    """This project's code, whatever is installed; no address of a bus of the user's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMINFER_")}
    return {**kept, **dict.fromkeys(THREADS, "1"), "PYTHONPATH": str(ROOT)}


@contextmanager
def running(arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A Python process that ends with the block: asked to, then killed."""
    process = subprocess.Popen(
        [sys.executable, "-P", *arguments],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def resident(pid: int) -> int:
    """Bytes of a process that are in memory now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise Failed(f"process {pid} has ended")
    return 1024 * int(found[1])


def output(process: subprocess.Popen[str]) -> str:
    """What a process prints until it ends; raises Failed if it fails or takes too long."""
    try:
        text, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"{process.args!r} took more than {PATIENCE_S:g} seconds") from None
    if process.returncode != 0:
        raise Failed(f"{process.args!r} ended with exit code {process.returncode}; its messages are above")
    return text


def contend(name: str, task: Task) -> Outcome:
    """What one contender makes of a task."""
    with running(["-m", f"benchmarks.contenders.{name}", task.to_json()]) as process:
        return Outcome(**json.loads(output(process).splitlines()[-1]))
