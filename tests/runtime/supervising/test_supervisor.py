"""Real, tiny processes: what dies by a signal comes back, what fails by itself is given up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streaminfer.runtime.role import needed
from streaminfer.runtime.running.process import SUPERVISOR_VARIABLE
from streaminfer.runtime.supervising import supervisor as module
from streaminfer.runtime.supervising.supervisor import Child, GaveUp, Supervisor, children_of
from streaminfer.services import ROLES
from streaminfer.spec import parse_spec


class TinySupervisor(Supervisor):
    """Its children's arguments are Python code."""

    def _start(self, child: Child, now: float) -> None:
        command = [sys.executable, "-S", "-E", "-c", *child.arguments]
        child.process = subprocess.Popen(command, env=self._environment, stdin=subprocess.DEVNULL)
        child.started_at = now


SLEEPER = ["import time; time.sleep(60)"]
FAILING = ["raise SystemExit(3)"]
made: list[Supervisor] = []


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    while made:
        for child in made.pop().children:
            if child.process is not None:
                child.process.kill()
                child.process.wait()


def _supervise(*children: Child) -> TinySupervisor:
    made.append(TinySupervisor(list(children)))
    return made[-1]  # type: ignore[return-value]


def _until(condition: Callable[[], bool], tick: Callable[[], None] = lambda: None) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        tick()
        time.sleep(0.005)


def _ended(child: Child) -> Callable[[], bool]:
    return lambda: child.process is not None and child.process.poll() is not None


def test_what_a_signal_ended_starts_again_at_once_and_never_counts() -> None:
    child = Child("sleeper", SLEEPER)
    supervisor = _supervise(child)
    supervisor.tick()
    assert child.alive
    assert child.process is not None
    first = child.process.pid
    child.process.send_signal(signal.SIGKILL)
    _until(_ended(child))
    supervisor.tick()
    assert child.alive
    assert child.process.pid != first
    assert supervisor.restarts == 1
    for _ in range(module.MAX_FAILURES + 2):
        os.kill(child.process.pid, signal.SIGTERM)
        _until(_ended(child))
        _until(lambda: child.alive, supervisor.tick)
        child.quick_deaths = 0
    assert child.failures == 0
    assert supervisor.restarts == module.MAX_FAILURES + 3


def test_quick_deaths_are_delayed_ever_longer_up_to_two_seconds() -> None:
    supervisor = TinySupervisor([])
    child = Child("c", [])
    delays = []
    for _ in range(9):
        supervisor._bury(child, -9, 100.0)
        child.started_at = 100.0
        delays.append(child.start_at - 100.0)
        child.start_at = 0.0
    assert delays[0] == 0.0
    assert delays[1:] == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])
    supervisor._bury(child, -9, 100.0 + module.QUICK_DEATH + 0.1)
    assert child.start_at == pytest.approx(100.0 + module.QUICK_DEATH + 0.1)


def test_a_delayed_child_is_not_started_before_its_time() -> None:
    child = Child("c", SLEEPER, start_at=time.monotonic() + 1000)
    supervisor = _supervise(child)
    supervisor.tick()
    assert child.process is None
    child.start_at = 0.0
    supervisor.tick()
    assert child.alive


def test_five_failures_of_its_own_end_everything() -> None:
    child, other = Child("broken", FAILING), Child("sleeper", SLEEPER)
    supervisor = _supervise(child, other)
    with pytest.raises(GaveUp, match="broken failed 5 times without progress; its messages are above"):
        _until(lambda: False, lambda: (setattr(child, "quick_deaths", 0), supervisor.tick())[1])
    assert supervisor.restarts == 4
    assert other.alive
    supervisor.stop()
    assert not other.alive


def test_an_exit_code_of_zero_is_a_failure_too() -> None:
    child = Child("ending", ["pass"])
    supervisor = _supervise(child)
    supervisor.tick()
    _until(_ended(child))
    supervisor.tick()
    assert child.failures == 1


def test_progress_resets_the_count() -> None:
    child = Child("broken", FAILING, failures=4)
    supervisor = _supervise(child)
    supervisor.progressed()
    assert child.failures == 0
    supervisor.tick()
    _until(_ended(child))
    supervisor.tick()
    assert child.failures == 1


def test_stop_asks_first_and_kills_what_does_not_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.5)
    deaf = tmp_path / "deaf"
    code = f"import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({str(deaf)!r}, 'w'); {SLEEPER[0]}"
    polite, stubborn = Child("polite", SLEEPER), Child("stubborn", [code])
    supervisor = _supervise(polite, stubborn)
    supervisor.tick()
    _until(deaf.exists)
    supervisor.stop()
    assert polite.process is not None
    assert stubborn.process is not None
    assert polite.process.returncode == -signal.SIGTERM
    assert stubborn.process.returncode == -signal.SIGKILL


def test_children_know_their_supervisor() -> None:
    code = f"import os,sys; sys.exit(0 if os.environ['{SUPERVISOR_VARIABLE}'] == str(os.getppid()) else 1)"
    child = Child("child", [code])
    _supervise(child).tick()
    _until(_ended(child))
    assert child.process is not None
    assert child.process.returncode == 0


def test_the_processes_of_a_spec() -> None:
    spec = parse_spec({"name": "demo", "model": {"kind": "poisson", "field": "k"}})
    found, other = (children_of(needed(ROLES, spec), spec, 2, "s.yaml", "embedded:x", 1) for _ in range(2))
    instances = [child.arguments[5] for child in (*found, *other)]
    assert len(set(instances)) == 8, "two `up` on one bus must not replace each other's processes"
    assert [(child.name, child.arguments) for child in found] == [
        ("master-0", ["master", "s.yaml", "--bus", "embedded:x", "--instance", instances[0], "--verbose"]),
        ("worker-0", ["svb-worker", "s.yaml", "--bus", "embedded:x", "--instance", instances[1], "--verbose"]),
        ("worker-1", ["svb-worker", "s.yaml", "--bus", "embedded:x", "--instance", instances[2], "--verbose"]),
        ("monitor-0", ["monitor", "s.yaml", "--bus", "embedded:x", "--instance", instances[3], "--verbose"]),
    ]
    assert [child.to_come for child in found] == [False, False, False, True], "nobody waits for the monitor"
    assert instances[0].startswith("master-0.")
