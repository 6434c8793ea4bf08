"""The log of real services: JSON lines with every change of state, and a level that a signal sets."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from streaminfer.bus.environment import SettingsError
from streaminfer.runtime import logs
from tests.faults.programs import Program, Programs, programs, wait_for

__all__ = ["programs"]

pytestmark = pytest.mark.xdist_group("processes")

SPEC = "{name: coin, data: {partitions: 2}, model: {kind: bernoulli, field: y}, inference: {minibatch: 10}}\n"


def lines(program: Program) -> list[dict[str, Any]]:
    """All of standard error, which must be JSON."""
    return [json.loads(line) for line in program.err.splitlines(keepends=True) if line.endswith("\n")]


def events(program: Program) -> list[str]:
    return [each["event"] for each in lines(program) if "event" in each]


def test_every_change_of_state_is_one_line(programs: Programs) -> None:
    spec, data, bus = programs.folder / "coin.yaml", programs.folder / "coin.csv", f"embedded:{programs.folder / 'bus'}"
    spec.write_text(SPEC)
    data.write_text("y\n" + "1\n0\n" * 50)
    programs.environment["STREAMINFER_LOG"] = "json"
    master = programs.start("run", "master", spec, "--instance", "m-0", "--bus", bus)
    wait_for(lambda: "master of" in events(master), "the master")
    found = {each["event"]: each for each in lines(master) if "event" in each}
    assert list(found) == ["joined", "assigned", "restored", "master of"]
    assert (found["joined"]["instance"], found["joined"]["group"]) == ("m-0", "coin.master")
    assert found["assigned"]["partitions"] == ["coin.increments-0"]
    assert found["restored"]["version"] == 0
    master.send(signal.SIGUSR1)
    wait_for(lambda: "the level of the log is now DEBUG" in master.err, "the new level")
    master.send(signal.SIGUSR1)
    wait_for(lambda: "the level of the log is now WARNING" in master.err, "the new level")
    newer = programs.start("run", "master", spec, "--instance", "m-0", "--bus", bus)
    assert master.process.wait(60) == 1, "it was replaced"
    assert "has joined as 'm-0'" in lines(master)[-1]["message"]
    assert newer.end(signal.SIGTERM) == 0
    assert events(newer)[-1] == "stopped"
    assert {"time", "level", "logger", "message", "pid"} <= lines(newer)[0].keys()


def test_a_traceback_is_one_line_too(programs: Programs) -> None:
    programs.environment["STREAMINFER_LOG"] = "json"
    (programs.folder / "broken.py").write_text(
        "from streaminfer.runtime import logs\n"
        "logs.configure(0)\n"
        "import warnings\nwarnings.warn('a warning')\n"
        "raise RuntimeError('one\\ntwo \\u202e')\n"
    )
    programs.environment["PYTHONPATH"] += f":{programs.folder}"
    broken = programs.start(module="broken")
    assert broken.process.wait(60) == 1
    warning, error = lines(broken)
    assert "a warning" in warning["message"]
    assert error["level"] == "CRITICAL"
    assert error["traceback"].startswith("Traceback (most recent call last):\n")
    assert error["traceback"].endswith("RuntimeError: one\ntwo \u202e")
    assert "\u202e" not in broken.err, "what a terminal acts upon is escaped"


def test_errors_of_a_command_are_json_too(programs: Programs) -> None:
    programs.environment["STREAMINFER_LOG"] = "json"
    done = programs.run("validate", "missing.yaml", code=2)
    (line,) = lines(done)
    assert "missing.yaml" in line["message"]
    programs.environment["STREAMINFER_LOG"] = "yaml"
    done = programs.run("validate", "missing.yaml", code=2)
    assert done.err == "streaminfer: STREAMINFER_LOG must be json or text (got 'yaml')\n"


def test_every_event_is_documented(request: pytest.FixtureRequest) -> None:
    page = (Path(request.config.rootpath) / "docs" / "operations.md").read_text()
    assert not [name for name in logs.EVENTS if f"| `{name}` |" not in page]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="is not one of"):
        logs.event(logs.logging.getLogger("x"), "exploded", "text")
    with pytest.raises(SettingsError, match="must be json or text"):
        logs.configure(0, {"STREAMINFER_LOG": "xml"})
