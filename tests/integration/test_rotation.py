"""A password that changes in mid-stream: nothing is lost, nothing starts again, and it is seen nowhere."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from streaminfer.runtime.rights import rights
from streaminfer.services import ROLES
from streaminfer.spec import load_spec
from tests.bus.secured import Secured
from tests.faults.programs import Programs, children, wait_for

pytestmark = pytest.mark.xdist_group("security")

SPEC = (
    "{name: turning, data: {partitions: 2}, model: {kind: bernoulli, field: y}, "
    "inference: {minibatch: 50, snapshot_ms: 50}}\n"
)
EVENTS = 4000
FIRST, SECOND = "first-secret-1234", "second-secret-5678"


def command_lines() -> str:
    """Those of all processes of this machine that we may see."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_a_password_file_changes_and_connections_are_cut(secured: Secured, programs: Programs) -> None:
    spec, data, file = (programs.folder / name for name in ("spec.yaml", "data.csv", "password"))
    spec.write_text(SPEC)
    data.write_text("y\n" + "1\n" * EVENTS)
    file.write_text(f"{FIRST}\n")
    user = "turning-up"
    secured.add_user(user, FIRST)
    secured.allow(user, [each for each in rights(load_spec(spec), ROLES) if each.role == "up"])
    programs.environment |= secured.settings(user, PASSWORD_FILE=str(file))
    url = f"kafka://{secured.addresses['cut']}"
    up = programs.start("up", spec, "--bus", url, "--verbose")
    wait_for(lambda: len(children(up.pid)) >= 2, "services have started")
    produce = programs.start("produce", spec, data, "--rate", EVENTS // 8, "--bus", url, "--verbose")
    following = programs.start("snapshot", spec, "--follow", "--json", "--bus", url)

    def absorbed() -> int:
        return max((each["n_events"] for each in following.documents), default=0)

    wait_for(lambda: absorbed() > EVENTS // 8, "events are absorbed")
    before = {pid for pid, line in children(up.pid).items() if "run monitor" not in line}
    secured.add_user(user, SECOND)
    assert secured.cutter.cut() > 0
    time.sleep(1)  # between the change there and the change here the log-in is refused
    (programs.folder / "new").write_text(f"{SECOND}\n")
    os.replace(programs.folder / "new", file)
    wait_for(lambda: produce.process.poll() is not None, "the file is loaded")
    assert produce.process.returncode == 0, produce.err
    wait_for(lambda: absorbed() == EVENTS, "all events are absorbed")
    secured.cutter.cut()
    assert before <= set(children(up.pid)), "a service has started again"
    validated = programs.run("validate", spec)
    said = "".join(each.out + each.err for each in (up, produce, following, validated)) + command_lines()
    for secret in (FIRST, SECOND):
        assert secret not in said
    assert up.end() == 0
